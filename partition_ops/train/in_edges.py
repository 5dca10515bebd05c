"""Draw in-edges of nodes, and number the nodes that are found: a neighbor sampler for NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled_with_arrays

Ids = npt.NDArray[np.int64]


class FoundNodes:
    """The sampled nodes of one type, each once, in the order in which they were found.

    Attributes:
        ids: Their IDs.
        counts: Numbers of nodes that each hop added.
    """

    def __init__(self, seeds: Ids | None = None) -> None:
        self.ids: Ids = np.empty(0, np.int64) if seeds is None else seeds.astype(np.int64)
        self.counts: list[int] = []
        self._sorted = np.argsort(self.ids, kind="stable")

    def next_hop(self) -> tuple[int, Ids]:
        """Return the position of the first node since the last call, and all nodes since then."""
        first = sum(self.counts)
        self.counts.append(len(self.ids) - first)
        return first, self.ids[first:]

    def add(self, ids: Ids) -> Ids:
        """Add nodes, and return their positions."""
        unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        places = np.searchsorted(self.ids, unique, sorter=self._sorted)
        known = self._sorted[np.minimum(places, max(len(self.ids) - 1, 0))] if len(self.ids) else None
        is_known = np.zeros(len(unique), np.bool_) if known is None else self.ids[known] == unique
        new = np.flatnonzero(~is_known)
        new = new[np.argsort(first[new])]  # in the order in which they were found
        positions = np.empty(len(unique), np.int64)
        if known is not None:
            positions[is_known] = known[is_known]
        positions[new] = np.arange(len(self.ids), len(self.ids) + len(new))
        self.ids = np.concatenate([self.ids, unique[new]])
        self._sorted = np.argsort(self.ids, kind="stable")
        return positions[inverse]


@compiled_with_arrays
def sample_in_edges(
    indptr: Ids, indices: Ids, eids: Ids, nodes: Ids, fanout: int, replace: bool, draw: int
) -> tuple[Ids, Ids, Ids]:
    """Draw in-edges of some nodes.

    Args:
        indptr: (nodes + 1,) where the in-edges of each node begin.
        indices: (edges,) sources.
        eids: (edges,) edge IDs.
        nodes: (n,) the nodes.
        fanout: How many for each node, at most; -1 for all.
        replace: Draw with replacement.
        draw: Seed of the draw.

    Returns:
        Sources, positions in ``nodes``, and edge IDs.
    """
    np.random.seed(draw % (1 << 32))
    counts = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        degree = indptr[nodes[i] + 1] - indptr[nodes[i]]
        counts[i] = degree if fanout < 0 or (degree <= fanout and not replace) else fanout
        if degree == 0:
            counts[i] = 0
    total = counts.sum()
    src, dst, ids = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    chosen = np.empty(max(fanout, 1), np.int64)
    at = 0
    for i in range(len(nodes)):
        begin = indptr[nodes[i]]
        degree = indptr[nodes[i] + 1] - begin
        everything = fanout < 0 or (degree <= fanout and not replace)
        for k in range(counts[i]):
            place = k
            if not everything and replace:
                place = np.random.randint(degree)
            elif not everything:  # Floyd's algorithm: each set of places is equally likely
                last = degree - fanout + k
                place = np.random.randint(last + 1)
                for j in range(k):
                    if chosen[j] == place:
                        place = last
                        break
                chosen[k] = place
            src[at], dst[at], ids[at] = indices[begin + place], i, eids[begin + place]
            at += 1
    return src, dst, ids
