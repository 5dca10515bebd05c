"""Stage ``schema``: homogeneous ID ranges by type, as DGL's convert_partition.py reads them."""
