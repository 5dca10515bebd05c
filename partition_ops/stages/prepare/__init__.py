"""Stage ``prepare``: the graph as a partitioner wants it."""
