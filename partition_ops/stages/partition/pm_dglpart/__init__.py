"""The program ``pm_dglpart``: partitions the text files of ParMETIS under mpirun."""
