"""The hot loops of making a graph symmetric: edges are dealt out by range of nodes, then each is sorted.

A *range* is ``1 << shift`` consecutive nodes, few enough that they and their neighbours stay in the cache.
The *row* of a half-edge is the node that it belongs to, counted from the first of its range.

Compiled by numba on first use and kept on disk beside this file, or in the user's cache folder where
that one cannot be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[Any]
Neighbours = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def deal(
    src: Counts,
    dst: Counts,
    src_offset: int,
    dst_offset: int,
    shift: int,
    rows: Rows,
    neighbours: Neighbours,
    bounds: Counts,
) -> None:
    """Write both half-edges of a block of edges, those of each range of nodes together.

    Args:
        src: (n,) int64, type-wise IDs.
        dst: (n,) int64, type-wise IDs.
        src_offset: Homogeneous ID of the first node of the type of the sources.
        dst_offset: ... of the destinations.
        shift: Of the ranges.
        rows: (2n or more,) unsigned, written to.
        neighbours: (2n or more,) int32 or int64, written to: homogeneous IDs, but ``~ID`` of the source for
            the half-edge at the destination. A self-loop is there once, at its destination.
        bounds: (ranges + 1,) int64, written to: where the half-edges of each range begin.
    """
    last = (1 << shift) - 1
    bounds[:] = 0
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        bounds[(b >> shift) + 1] += 1
        if a != b:
            bounds[(a >> shift) + 1] += 1
    for i in range(len(bounds) - 1):
        bounds[i + 1] += bounds[i]
    places = bounds[:-1].copy()
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        place = places[b >> shift]
        places[b >> shift] += 1
        rows[place] = b & last
        neighbours[place] = ~a
        if a != b:
            place = places[a >> shift]
            places[a >> shift] += 1
            rows[place] = a & last
            neighbours[place] = b


@njit(cache=True, nogil=True)
def sort_range(
    begin: int, rows: Rows, neighbours: Neighbours, in_degrees: Counts, unique: Counts, packed: Counts
) -> int:
    """Sort the half-edges of one range of nodes, and merge those that are the same.

    Args:
        begin: First node of the range.
        rows: (half-edges,) as `deal` wrote them.
        neighbours: (half-edges,) likewise.
        in_degrees: (nodes of the range,) int64, written to: edges that end at each node, nothing merged.
        unique: (nodes of the range,) int64, written to: distinct neighbours of each node but itself.
        packed: (half-edges or more,) int64, written to: these neighbours, ascending, node by node.

    Returns:
        The number of self-loops.
    """
    loops = 0
    places = np.zeros(len(unique) + 1, np.int64)
    in_degrees[:] = 0
    for i in range(len(rows)):
        row, other = np.int64(rows[i]), np.int64(neighbours[i])
        if other < 0:
            in_degrees[row] += 1
            if ~other == begin + row:
                loops += 1
                continue
        places[row + 1] += 1
    for node in range(len(unique)):
        places[node + 1] += places[node]
    found = np.empty(places[-1], neighbours.dtype)
    for i in range(len(rows)):
        row, other = np.int64(rows[i]), np.int64(neighbours[i])
        if other < 0:
            other = np.int64(~other)
            if other == begin + row:
                continue
        found[places[row]] = other
        places[row] += 1
    at, first = 0, np.int64(0)
    for node in range(len(unique)):
        some = found[first : places[node]]  # places has moved on to where the next row begins
        first = places[node]
        some.sort()
        start = at
        for i in range(len(some)):
            if at == start or some[i] != packed[at - 1]:
                packed[at] = some[i]
                at += 1
        unique[node] = at - start
    return loops
