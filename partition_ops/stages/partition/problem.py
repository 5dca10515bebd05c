"""The problem that an engine solves: a graph, the weights to balance, and the options."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import ParhipGraph, open_parhip
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.weights import (
    Classes,
    Weights,
    class_weights,
    feature_classes,
    type_classes,
)
from partition_ops.storage import Store

Parts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Problem:
    """A graph, and how to partition it.

    Attributes:
        config: Number of partitions, balance, seed.
        metadata: The graph's metadata.
        artifacts: Root of the run, with the graph that ``prepare`` wrote.
        source: Root of the input graph, for the feature to balance by.
        notes: Figures that the engine adds to the result.
    """

    config: PartitionConfig
    metadata: GraphMetadata
    artifacts: Store
    source: Store | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def graph(self) -> ParhipGraph:
        """The symmetric homogeneous graph; its neighbours are mapped, not read."""
        return open_parhip(self.artifacts.local_copy(layout.PREPARED_GRAPH))

    @cached_property
    def in_degrees(self) -> npt.NDArray[np.int64]:
        """(nodes,) int64, in-degree by homogeneous ID; edges that validation hides do not count."""
        degrees: npt.NDArray[np.int64] = np.load(self.artifacts.local_copy(layout.PREPARED_IN_DEGREES))
        return degrees

    @cached_property
    def classes(self) -> Classes:
        """(nodes,) int32, the class of each node; every partition gets its share of each class."""
        if self.config.balance_ntypes is not None and self.source is not None:
            return feature_classes(self.config, self.metadata, self.source)
        offsets = self.metadata.node_offsets
        return type_classes(self.config, offsets, 0, offsets[-1])

    @cached_property
    def weights(self) -> Weights:
        """(nodes, constraints) int64: weights of which every partition gets its share.

        ``dgl.distributed.partition_graph`` builds the same: for ``node-types`` one column a type, 1 if the
        node is of it; for ``edges`` also the in-degrees of each type; for ``none`` one column of 1. Columns
        of zeros are left out, as there is nothing to balance.
        """
        count = int(self.classes.max(initial=0)) + 1
        in_degrees = self.in_degrees if self.config.balance == "edges" else None
        columns = class_weights(self.classes, count, in_degrees)
        return np.ascontiguousarray(columns[:, columns.any(axis=0)])

    @property
    def num_parts(self) -> int:
        """Number of partitions that the engine makes: one for each trainer of each machine."""
        return self.config.num_parts * self.config.num_trainers_per_machine
