"""The hot loops of making a graph symmetric: a counting sort over its edges.

Compiled by numba on first use and kept on disk beside this file, or in the user's cache folder where
that one cannot be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, prange

Counts = npt.NDArray[np.int64]
Neighbours = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def count(src: Counts, dst: Counts, degrees: Counts, in_degrees: Counts) -> int:
    """Add a block of edges to the degrees.

    Args:
        src: (n,) int64, homogeneous IDs.
        dst: (n,) int64, homogeneous IDs.
        degrees: (nodes,) int64; both ends of every edge that is no self-loop are added.
        in_degrees: (nodes,) int64; the destination of every edge is added.

    Returns:
        The number of self-loops.
    """
    loops = 0
    for i in range(len(src)):
        in_degrees[dst[i]] += 1
        if src[i] == dst[i]:
            loops += 1
        else:
            degrees[src[i]] += 1
            degrees[dst[i]] += 1
    return loops


@njit(cache=True, nogil=True)
def fill(src: Counts, dst: Counts, positions: Counts, neighbours: Neighbours) -> None:
    """Enter both directions of a block of edges.

    Args:
        src: (n,) int64, homogeneous IDs.
        dst: (n,) int64, homogeneous IDs.
        positions: (nodes,) int64; where the next neighbour of each node goes, moved on by this.
        neighbours: (half-edges,) int32 or int64, written to.
    """
    for i in range(len(src)):
        a, b = src[i], dst[i]
        if a != b:
            neighbours[positions[a]] = b
            positions[a] += 1
            neighbours[positions[b]] = a
            positions[b] += 1


@njit(cache=True, nogil=True, parallel=True)
def sort_and_merge(begins: Counts, ends: Counts, neighbours: Neighbours) -> Counts:
    """Sort the neighbours of each node in place and move the distinct ones to the front.

    Returns:
        (nodes,) int64, the number of distinct neighbours.
    """
    unique = np.zeros(len(begins), np.int64)
    for node in prange(len(begins)):
        row = neighbours[begins[node] : ends[node]]
        row.sort()
        kept = 0
        for i in range(len(row)):
            if kept == 0 or row[i] != row[kept - 1]:
                row[kept] = row[i]
                kept += 1
        unique[node] = kept
    return unique


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
