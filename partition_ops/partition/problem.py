"""What an engine is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.config import PartitionConfig
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.graph.parhip import ParhipGraph, open_parhip
from partition_ops.storage import Store

Parts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Problem:
    """A graph to partition and how.

    Attributes:
        config: Number of partitions, balance, seed.
        metadata: The graph's metadata.
        artifacts: Root of the run, where ``prepare`` has left the graph.
    """

    config: PartitionConfig
    metadata: GraphMetadata
    artifacts: Store

    @cached_property
    def graph(self) -> ParhipGraph:
        """The symmetric homogeneous graph; its neighbours are mapped, not read."""
        return open_parhip(self.artifacts.local_copy(artifacts.PREPARED_GRAPH))

    @cached_property
    def in_degrees(self) -> npt.NDArray[np.int64]:
        """(nodes,) int64, in-degree by homogeneous ID; edges that validation hides do not count."""
        degrees: npt.NDArray[np.int64] = np.load(self.artifacts.local_copy(artifacts.PREPARED_IN_DEGREES))
        return degrees

    @cached_property
    def weights(self) -> npt.NDArray[np.int64]:
        """(nodes, constraints) int64: what every partition must get the same share of.

        As ``dgl.distributed.partition_graph`` builds them: for ``node-types`` one column a type, 1 where
        the node is of it; for ``edges`` the in-degrees of each type besides; for ``none`` one column of 1.
        Columns without any weight are left out: there is nothing to balance in them.
        """
        total = sum(self.metadata.num_nodes)
        if self.config.balance == "none":
            return np.ones((total, 1), np.int64)
        bounds = list(zip(self.metadata.node_offsets, self.metadata.node_offsets[1:], strict=False))
        by_type = [(begin, end) for begin, end in bounds if end > begin]
        with_edges = self.config.balance == "edges"
        columns = np.zeros((total, len(by_type) * (1 + with_edges)), np.int64)
        for column, (begin, end) in enumerate(by_type):
            columns[begin:end, column] = 1
            if with_edges:
                columns[begin:end, len(by_type) + column] = self.in_degrees[begin:end]
        return np.ascontiguousarray(columns[:, columns.any(axis=0)])
