"""The hot loops of sorting edges by one of their ends: a counting sort that keeps the order of edge IDs.

Compiled by numba on first use and kept on disk beside this file, or in the user's cache folder where that
one cannot be written.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ids = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def count(keys: Ids, degrees: Ids) -> None:
    """Add a block of edges to the degrees.

    Args:
        keys: (n,) int64, the end to sort by, type-wise; negative where there is no edge of that ID.
        degrees: (nodes,) int64, added to.
    """
    for i in range(len(keys)):
        if keys[i] >= 0:
            degrees[keys[i]] += 1


@njit(cache=True, nogil=True)
def fill(keys: Ids, others: Ids, first: int, positions: Ids, neighbours: Ids, eids: Ids) -> None:
    """Enter a block of edges.

    Args:
        keys: (n,) int64, the end to sort by, type-wise; negative where there is no edge of that ID.
        others: (n,) int64, the other end, type-wise.
        first: Edge ID of the first edge of the block; those of the others follow.
        positions: (nodes,) int64; where the next edge of each node goes, moved on by this.
        neighbours: (edges,) int64, written to.
        eids: (edges,) int64, written to.
    """
    for i in range(len(keys)):
        key = keys[i]
        if key >= 0:
            neighbours[positions[key]] = others[i]
            eids[positions[key]] = first + i
            positions[key] += 1


@njit(cache=True, nogil=True)
def are_neighbours(indptr: Ids, neighbours: Ids, keys: Ids, others: Ids) -> npt.NDArray[np.bool_]:
    """Whether each pair is joined by an edge.

    Args:
        indptr: (nodes + 1,) int64, where the neighbours of each node begin.
        neighbours: (edges,) int64.
        keys: (n,) int64, ends that the edges are sorted by.
        others: (n,) int64, their other ends.

    Returns:
        (n,) bool.
    """
    found = np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        for place in range(indptr[keys[i]], indptr[keys[i] + 1]):
            if neighbours[place] == others[i]:
                found[i] = True
                break
    return found
