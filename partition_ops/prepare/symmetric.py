"""The hot loops of making a graph symmetric: a counting sort over its edges.

Compiled by numba on first use and kept on disk beside this file, or in the user's cache folder where
that one cannot be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Counts = npt.NDArray[np.int64]
Neighbours = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def count(
    src: Counts,
    dst: Counts,
    src_offset: int,
    dst_offset: int,
    degrees: Counts,
    in_degrees: Counts,
    pairs: Neighbours,
) -> int:
    """Add a block of edges to the degrees, and give them homogeneous IDs.

    Args:
        src: (n,) int64, type-wise IDs.
        dst: (n,) int64, type-wise IDs.
        src_offset: Homogeneous ID of the first node of the type of the sources.
        dst_offset: ... of the destinations.
        degrees: (nodes,) int64; both ends of every edge that is no self-loop are added.
        in_degrees: (nodes,) int64; the destination of every edge is added.
        pairs: (n, 2) int32 or int64, written to: homogeneous IDs.

    Returns:
        The number of self-loops.
    """
    loops = 0
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        pairs[i, 0] = a
        pairs[i, 1] = b
        in_degrees[b] += 1
        if a == b:
            loops += 1
        else:
            degrees[a] += 1
            degrees[b] += 1
    return loops


@njit(cache=True, nogil=True)
def fill(pairs: Neighbours, first: int, last: int, positions: Counts, neighbours: Neighbours) -> None:
    """Enter both directions of a block of edges, as far as they begin at some consecutive nodes.

    Args:
        pairs: (n, 2) int32 or int64, homogeneous IDs.
        first: First of the nodes.
        last: The one behind them.
        positions: (nodes,) int64; where the next neighbour of each node goes, moved on by this.
        neighbours: (half-edges,) of the dtype of the pairs, written to.
    """
    for i in range(len(pairs)):
        a, b = pairs[i, 0], pairs[i, 1]
        if a == b:
            continue
        if first <= a < last:
            neighbours[positions[a]] = b
            positions[a] += 1
        if first <= b < last:
            neighbours[positions[b]] = a
            positions[b] += 1


@njit(cache=True, nogil=True)
def sort_and_merge(begins: Counts, ends: Counts, neighbours: Neighbours, unique: Counts) -> None:
    """Sort the neighbours of some nodes in place and move the distinct ones to the front.

    Args:
        begins: (n,) int64, where the neighbours of each node begin.
        ends: (n,) int64, where they end.
        neighbours: (half-edges,) of all nodes.
        unique: (n,) int64, the number of distinct neighbours is written to.
    """
    for node in range(len(begins)):
        row = neighbours[begins[node] : ends[node]]
        row.sort()
        kept = 0
        for i in range(len(row)):
            if kept == 0 or row[i] != row[kept - 1]:
                row[kept] = row[i]
                kept += 1
        unique[node] = kept


@njit(cache=True, nogil=True)
def compact(begins: Counts, unique: Counts, neighbours: Neighbours) -> Counts:
    """The distinct neighbours of some consecutive nodes, end to end, as int64."""
    packed = np.empty(unique.sum(), np.int64)
    at = 0
    for node in range(len(begins)):
        for i in range(unique[node]):
            packed[at] = neighbours[begins[node] + i]
            at += 1
    return packed
