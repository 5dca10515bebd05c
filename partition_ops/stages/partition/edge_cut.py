"""The edge cut of an assignment on the prepared graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from partition_ops.stages.partition.multilevel.batches import Batches
from partition_ops.stages.partition.multilevel.graph import Graph
from partition_ops.stages.partition.problem import Parts


@dataclass(frozen=True)
class EdgeCut:
    """Number of pairs of neighbours in two partitions, of all pairs; edges between two nodes count once."""

    pairs: int
    of: int

    @property
    def fraction(self) -> float:
        return self.pairs / self.of if self.of else 0.0

    def to_json(self) -> dict[str, int | float]:
        return {"pairs": self.pairs, "of": self.of, "fraction": round(self.fraction, 6)}


def edge_cut(graph: Graph, parts: Parts) -> EdgeCut:
    """Return the cut of a graph without weights.

    Args:
        graph: Symmetric, without self-loops.
        parts: (nodes,) int32, below 65536.
    """
    narrow, found = parts.astype(np.uint16), []  # so that more of it is in the cache
    with Batches(graph.num_half_edges) as batches:

        def count(thread: int, span: slice) -> None:
            found.append(_cut(graph, narrow, span.start, span.stop))

        batches.share(0, graph.num_half_edges, count)
    return EdgeCut(sum(found) // 2, graph.num_half_edges // 2)


@njit(cache=True, nogil=True)
def _cut(graph: Graph, parts: npt.NDArray[np.uint16], begin: int, end: int) -> int:
    """Count the half-edges from ``begin`` to ``end`` that are cut."""
    v = np.searchsorted(graph.offsets, begin, side="right") - 1
    cut = 0
    for j in range(begin, end):
        while j >= graph.offsets[v + 1]:
            v += 1
        cut += parts[v] != parts[graph.neighbours[j]]
    return cut
