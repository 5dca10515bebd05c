"""ParMETIS over MPI: start the ranks, and call the library in each of them."""
