"""Training on one machine straight from a finished output, without loading the graph.

`PartitionedGraph` goes where DGL's data loaders and samplers take a graph. dgl and torch are imported with
this package, which takes seconds; nothing else of ``partition_ops`` imports it unasked.
"""

from partition_ops.train.graph import PartitionedGraph
from partition_ops.train.storages import AsyncMemmapStorage, MemmapStorage

__all__ = ["AsyncMemmapStorage", "MemmapStorage", "PartitionedGraph"]
