"""ParMETIS over MPI, found at run time: its library, the ranks that call it, and ``pm_dglpart``.

Nothing here imports mpi4py or loads a library before a rank runs: neither is needed by other engines.
"""
