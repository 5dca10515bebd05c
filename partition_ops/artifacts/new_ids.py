"""New IDs: contiguous by partition, by type inside a partition, and in the old order inside a type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.system.compilation import compiled, unsigned

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
FEW = 2**31 - 1  # largest int32


def id_dtype(largest: int) -> np.dtype[Any]:
    """Return int32 if IDs up to ``largest`` fit, else int64."""
    return np.dtype(np.int32 if largest <= FEW else np.int64)


@dataclass(frozen=True)
class NodeOrder:
    """The permutation of homogeneous node IDs that an assignment makes. 8 bytes a node, or 16 beyond 2^31."""

    assignment: Assignment  # the partition of every node

    @cached_property
    def _order(self) -> tuple[Ids, Ids]:
        nodes = len(self.assignment.parts)
        old, new = (np.empty(nodes, id_dtype(nodes)) for _ in range(2))
        # homogeneous IDs are laid out by type, so a stable sort by partition orders the types as well
        _order_nodes(self.assignment.parts, self.starts[:-1].copy(), old, new)
        return old, new

    @property
    def old_ids(self) -> Ids:
        """(nodes,) int32 or int64, homogeneous ID of the input graph by new ID."""
        return self._order[0]

    @property
    def new_ids(self) -> Ids:
        """(nodes,) int32 or int64, new ID by homogeneous ID of the input graph."""
        return self._order[1]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """(partitions + 1,) int64, first new ID of each partition."""
        sizes = np.bincount(self.assignment.parts, minlength=self.assignment.num_parts)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

    def range_of(self, part: int) -> tuple[int, int]:
        """Return the half-open range of the new IDs of a partition."""
        return int(self.starts[part]), int(self.starts[part + 1])


@compiled
def _order_nodes(parts: Ids, positions: Counts, old_ids: Ids, new_ids: Ids) -> None:
    """Sort nodes by partition, stably, by counting.

    Args:
        parts: (nodes,) int32, the partition of each node.
        positions: (partitions,) int64, first new ID of each partition; moved on by this.
        old_ids: (nodes,) old ID by new ID, written.
        new_ids: (nodes,) new ID by old ID, written.
    """
    for old in range(len(parts)):
        part = unsigned(parts[old])
        new = positions[part]
        positions[part] += 1
        old_ids[unsigned(new)] = old
        new_ids[old] = new
