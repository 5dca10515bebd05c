"""The engine ``parmetis``: ParMETIS over MPI, found at run time, and the program ``pm-dglpart``."""
