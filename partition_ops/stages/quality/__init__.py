"""Stage ``quality``: how good the partitioning is."""
