"""Training on one machine straight from a finished output, without loading the graph.

DGL's data loaders and samplers take a `PartitionedGraph` as their graph. Importing this package imports dgl
and torch, which takes seconds; other packages of ``partition_ops`` import it only when they need it.
"""

from partition_ops.train.graph_data import AsyncMemmapStorage, MemmapStorage
from partition_ops.train.partitioned_graph import PartitionedGraph

__all__ = ["AsyncMemmapStorage", "MemmapStorage", "PartitionedGraph"]
