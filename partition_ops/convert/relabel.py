"""New IDs: contiguous by partition, by type inside a partition, and in the old order inside a type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partition_ops.graph.assignment import Assignment

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NodeOrder:
    """The permutation of homogeneous node IDs that an assignment makes.

    Attributes:
        assignment: The partition of every node.
    """

    assignment: Assignment

    @cached_property
    def old_ids(self) -> Ids:
        """(nodes,) int64, homogeneous ID of the input graph by new ID.

        Homogeneous IDs are laid out by type, so a stable sort by partition orders the types as well.
        """
        parts = self.assignment.parts.astype(np.uint16)  # numpy sorts 16 bits by radix, in linear time
        return np.argsort(parts, kind="stable")

    @cached_property
    def new_ids(self) -> Ids:
        """(nodes,) int64, new ID by homogeneous ID of the input graph."""
        new = np.empty(len(self.old_ids), np.int64)
        new[self.old_ids] = np.arange(len(new))
        return new

    @cached_property
    def starts(self) -> Ids:
        """(partitions + 1,) int64, first new ID of each partition."""
        sizes = np.bincount(self.assignment.parts, minlength=self.assignment.num_parts)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

    def old_ids_of(self, part: int) -> Ids:
        """Homogeneous IDs, in the input graph, of the inner nodes of a partition, by new ID."""
        return self.old_ids[self.starts[part] : self.starts[part + 1]]
