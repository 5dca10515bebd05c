"""Stage ``prepare``: the graph as a partitioner wants it."""

from partition_ops.stages.prepare.prepare import prepare_graph

__all__ = ["prepare_graph"]
