"""New IDs: contiguous by partition, by type inside a partition, and in the old order inside a type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.stages.convert.loops import order_nodes

Ids = npt.NDArray[Any]
FEW = 2**31 - 1  # what 32 bits hold


def id_dtype(largest: int) -> np.dtype[Any]:
    """int32 where IDs up to ``largest`` fit, else int64."""
    return np.dtype(np.int32 if largest <= FEW else np.int64)


@dataclass(frozen=True)
class NodeOrder:
    """The permutation of homogeneous node IDs that an assignment makes. 8 bytes a node, or 16 beyond 2^31.

    Attributes:
        assignment: The partition of every node.
    """

    assignment: Assignment

    @cached_property
    def _order(self) -> tuple[Ids, Ids]:
        nodes = len(self.assignment.parts)
        old, new = (np.empty(nodes, id_dtype(nodes)) for _ in range(2))
        # homogeneous IDs are laid out by type, so a stable sort by partition orders the types as well
        order_nodes(self.assignment.parts, self.starts[:-1].copy(), old, new)
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
        """Half-open range of the new IDs of a partition."""
        return int(self.starts[part]), int(self.starts[part + 1])
