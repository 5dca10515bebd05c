"""Half-edges of the symmetric graph: split by range of nodes into a file, then sorted range by range.

A *range* is ``1 << shift`` consecutive nodes, few enough that they and their neighbours stay in the cache.
The *row* of a half-edge is the node that it belongs to, counted from the first of its range.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.system.array_io import read_at, write_at
from partition_ops.system.compilation import compiled_with_arrays, unsigned

Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[Any]
Neighbours = npt.NDArray[Any]
Digits = npt.NDArray[Any]
Place = tuple[int, int]  # of a block among others
DIGIT_BITS = 13  # counts of so many values stay in the first-level cache
GROUP_HALF_EDGES = (
    1 << 15
)  # about so many are sorted at once; with a copy they stay in the second-level cache


class Ranges:
    """Ranges of nodes.

    Args:
        nodes: Number of nodes of all types.
        shift: Binary logarithm of the number of nodes in a range.

    Attributes:
        ranges: Number of ranges.
        dtypes: Of rows and of neighbours.
    """

    def __init__(self, nodes: int, shift: int) -> None:
        self._nodes = nodes
        self._shift = shift
        self.ranges = -(-nodes >> shift)
        self.dtypes = (
            np.dtype(np.uint16 if shift <= 16 else np.uint32),
            np.dtype(np.int32 if nodes <= 2**31 else np.int64),
        )

    def nodes_of(self, number: int) -> slice:
        """Return the nodes of a range."""
        return slice(number << self._shift, min((number + 1) << self._shift, self._nodes))


class HalfEdges(Ranges):
    """A file with the half-edges of every block, in the order of `split_block`; usable from several threads.

    Args:
        file: Descriptor of a file, open for reading and writing.
        nodes: Number of nodes of all types.
        shift: Binary logarithm of the number of nodes in a range.
    """

    def __init__(self, file: int, nodes: int, shift: int) -> None:
        super().__init__(nodes, shift)
        self._file = file
        self._lock = threading.Lock()
        self._end = 0
        self._blocks: list[tuple[Place, int, Counts]] = []  # where each begins in the file, and its bounds
        self._room: list[tuple[Rows, Neighbours]] = []  # arrays to use again

    def add(self, src: Counts, dst: Counts, src_offset: int, dst_offset: int, place: Place = (0, 0)) -> None:
        """Write a block of edges; see `split_block`. The place orders it among the other blocks."""
        bounds = np.empty(self.ranges + 1, np.int64)
        try:
            room = self._room.pop()  # faster than to allocate
        except IndexError:
            room = np.empty(0, self.dtypes[0]), np.empty(0, self.dtypes[1])
        if len(room[0]) < 2 * len(src):
            room = np.empty(2 * len(src), self.dtypes[0]), np.empty(2 * len(src), self.dtypes[1])
        rows, neighbours = room
        split_block(src, dst, src_offset, dst_offset, self._shift, rows, neighbours, bounds)
        count = int(bounds[-1])
        with self._lock:
            begin = self._end
            self._end += count * (rows.itemsize + neighbours.itemsize)
            self._blocks.append((place, begin, bounds))
        write_at(self._file, rows[:count], begin)
        write_at(self._file, neighbours[:count], begin + count * rows.itemsize)
        self._room.append(room)

    def places(self) -> list[Place]:
        """Return the place of each block, ascending."""
        return sorted(place for place, *_ in self._blocks)

    def bounds(self) -> Counts:
        """Return (blocks, ranges + 1) int64, where the half-edges of each range begin, in order of places."""
        self._room.clear()  # no more blocks are added
        self._blocks.sort(key=lambda block: block[0])
        found = [bounds for _, _, bounds in self._blocks]
        return np.array(found, np.int64).reshape(-1, self.ranges + 1)

    def copy(self, first: int, last: int, target: BinaryIO) -> None:
        """Write rows and neighbours of some consecutive ranges, block after block, in the order of `bounds`.

        Peak memory: those of a block.
        """
        for _, begin, bounds in self._blocks:
            for array in self._read(begin, bounds, int(bounds[first]), int(bounds[last])):
                target.write(array.data)

    def read(self, number: int) -> tuple[Rows, Neighbours]:
        """Return rows and neighbours of all half-edges of a range, block after block.

        After `bounds`, the blocks are in the order of their places.
        """
        self._room.clear()  # no more blocks are added
        counts = [int(bounds[number + 1] - bounds[number]) for _, _, bounds in self._blocks]
        rows, neighbours = (np.empty(sum(counts), dtype) for dtype in self.dtypes)
        at = 0
        for count, (_, begin, bounds) in zip(counts, self._blocks, strict=True):
            into = rows[at : at + count], neighbours[at : at + count]
            _read_half_edges(self._file, begin, int(bounds[-1]), int(bounds[number]), *into)
            at += count
        return rows, neighbours

    def _read(self, begin: int, bounds: Counts, first: int, last: int) -> tuple[Rows, Neighbours]:
        rows, neighbours = (np.empty(last - first, dtype) for dtype in self.dtypes)
        _read_half_edges(self._file, begin, int(bounds[-1]), first, rows, neighbours)
        return rows, neighbours


class CopiedHalfEdges(Ranges):
    """Files that `HalfEdges.copy` has written, of some consecutive ranges.

    Args:
        nodes: Number of nodes of all types.
        shift: Binary logarithm of the number of nodes in a range.
        first: The first range in the files.
        last: The end of the ranges in the files.
        files: Descriptor of each file, and what `HalfEdges.bounds` has returned for it.
    """

    def __init__(
        self, nodes: int, shift: int, first: int, last: int, files: Sequence[tuple[int, Counts]]
    ) -> None:
        super().__init__(nodes, shift)
        self._first = first
        self._pieces: list[tuple[int, int, Counts]] = []  # file, where a block begins, and its bounds
        size = sum(dtype.itemsize for dtype in self.dtypes)
        for file, index in files:
            begin = 0
            for bounds in index[:, first : last + 1]:
                self._pieces.append((file, begin, bounds - bounds[0]))
                begin += int(bounds[-1] - bounds[0]) * size

    def read(self, number: int) -> tuple[Rows, Neighbours]:
        """Return rows and neighbours of all half-edges of a range, file after file."""
        at = number - self._first
        counts = [int(bounds[at + 1] - bounds[at]) for _, _, bounds in self._pieces]
        rows, neighbours = (np.empty(sum(counts), dtype) for dtype in self.dtypes)
        done = 0
        for count, (file, begin, bounds) in zip(counts, self._pieces, strict=True):
            into = rows[done : done + count], neighbours[done : done + count]
            _read_half_edges(file, begin, int(bounds[-1]), int(bounds[at]), *into)
            done += count
        return rows, neighbours


def _read_half_edges(
    file: int, begin: int, count: int, first: int, rows: Rows, neighbours: Neighbours
) -> None:
    """Fill arrays with half-edges of a block of ``count``, from its ``first`` on."""
    read_at(file, rows, begin + first * rows.itemsize)
    read_at(file, neighbours, begin + count * rows.itemsize + first * neighbours.itemsize)


@compiled_with_arrays
def split_block(
    src: Counts,
    dst: Counts,
    src_offset: int,
    dst_offset: int,
    shift: int,
    rows: Rows,
    neighbours: Neighbours,
    bounds: Counts,
) -> None:
    """Order both half-edges of each edge of a block by range of nodes.

    Args:
        src: (n,) int64, type-wise IDs.
        dst: (n,) int64, type-wise IDs.
        src_offset: Homogeneous ID of the first node of the type of the sources.
        dst_offset: The same for the destinations.
        shift: Binary logarithm of the number of nodes in a range.
        rows: (2n or more,) unsigned, output.
        neighbours: (2n or more,) int32 or int64, output: homogeneous IDs, but ``~ID`` of the source for the
            half-edge at the destination. A self-loop has one half-edge, at its destination.
        bounds: (ranges + 1,) int64, output: where the half-edges of each range begin.
    """
    last = (1 << shift) - 1
    bounds[:] = 0
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        bounds[unsigned((b >> shift) + 1)] += 1
        if a != b:
            bounds[unsigned((a >> shift) + 1)] += 1
    for i in range(len(bounds) - 1):
        bounds[i + 1] += bounds[i]
    places = bounds[:-1].copy()
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        place = unsigned(places[unsigned(b >> shift)])
        places[unsigned(b >> shift)] += 1
        rows[place] = b & last
        neighbours[place] = ~a
        if a != b:
            place = unsigned(places[unsigned(a >> shift)])
            places[unsigned(a >> shift)] += 1
            rows[place] = a & last
            neighbours[place] = b


def digit_room(half_edges: int) -> Digits:
    """Return counts of digits for `sort_range`; with 32 bits they fit in the first-level cache."""
    return np.empty((1 << DIGIT_BITS) + 1, np.uint32 if half_edges < 2**32 else np.uint64)


@compiled_with_arrays
def sort_range(
    begin: int,
    bits: int,
    rows: Rows,
    neighbours: Neighbours,
    in_degrees: Counts,
    unique: Counts,
    packed: Neighbours,
    digits: Digits,
) -> int:
    """Sort the half-edges of one range of nodes, and merge duplicates.

    They are split into groups of rows that fit in the second-level cache, and each group is sorted by
    neighbour, then by row: a radix sort, linear in time.

    Args:
        begin: First node of the range.
        bits: Of the largest homogeneous ID.
        rows: (half-edges,) output of `split_block`; changed.
        neighbours: (half-edges,) output of `split_block`; changed.
        in_degrees: (nodes of the range,) int64, output: edges that end at each node, duplicates included.
        unique: (nodes of the range,) int64, output: number of distinct neighbours of each node.
        packed: (half-edges or more,) output: these neighbours, ascending, node by node.
        digits: `digit_room` of the half-edges; changed.

    Returns:
        The number of self-loops.

    Peak memory: a copy of the half-edges.
    """
    places = np.zeros(len(unique) + 1, np.int64)
    in_degrees[:] = 0
    count = 0
    for i in range(len(rows)):
        row, other = np.int64(rows[i]), np.int64(neighbours[i])
        if other < 0:
            in_degrees[unsigned(row)] += 1
            other = np.int64(~other)
            if other == begin + row:
                continue
        places[unsigned(row + 1)] += 1
        rows[unsigned(count)], neighbours[unsigned(count)] = rows[i], other
        count += 1
    for node in range(len(unique)):
        places[node + 1] += places[node]
    loops = len(rows) - count
    rows, neighbours = rows[:count], neighbours[:count]
    shift = 0  # binary logarithm of the rows in a group
    while len(unique) >> shift and (count << shift) // len(unique) < GROUP_HALF_EDGES:
        shift += 1
    if len(unique) >> shift:
        rows, neighbours = _split_rows(rows, neighbours, shift, places[:: 1 << shift].copy())
    spare_rows, spare_neighbours = rows[:0], neighbours[:0]
    at = 0
    for first in range(0, len(unique), 1 << shift):
        last = min(first + (1 << shift), len(unique))
        size = places[last] - places[first]
        if len(spare_rows) < size:
            spare_rows, spare_neighbours = np.empty(size, rows.dtype), np.empty(size, neighbours.dtype)
        mine = slice(places[first], places[last])
        ordered = _sort_group(
            rows[mine],
            neighbours[mine],
            spare_rows[:size],
            spare_neighbours[:size],
            bits,
            places[first:last] - mine.start,
            first,
            digits,
        )
        begin_of_row = 0
        for node in range(first, last):
            start = at
            end = places[node + 1] - mine.start
            for i in range(begin_of_row, end):
                if at == start or ordered[unsigned(i)] != packed[unsigned(at - 1)]:
                    packed[unsigned(at)] = ordered[unsigned(i)]
                    at += 1
            begin_of_row = end
            unique[node] = at - start
    return loops


@compiled_with_arrays
def _split_rows(rows: Rows, neighbours: Neighbours, shift: int, places: Counts) -> tuple[Rows, Neighbours]:
    """Return the half-edges by group of ``1 << shift`` rows; ``places`` says where each group begins."""
    next_rows, next_neighbours = np.empty_like(rows), np.empty_like(neighbours)
    for i in range(len(rows)):
        group = unsigned(np.int64(rows[i]) >> shift)
        place = unsigned(places[group])
        places[group] += 1
        next_rows[place], next_neighbours[place] = rows[i], neighbours[i]
    return next_rows, next_neighbours


@compiled_with_arrays
def _sort_group(
    rows: Rows,
    neighbours: Neighbours,
    next_rows: Rows,
    next_neighbours: Neighbours,
    bits: int,
    places: Counts,
    first: int,
    bounds: Digits,
) -> Neighbours:
    """Return the neighbours by row, ascending; ``places`` says where each row begins, and is changed.

    All four arrays of half-edges are changed, and `digit_room`. ``first`` is the first row.
    """
    digits = max(-(-bits // DIGIT_BITS), 1)
    width = -(-bits // digits)
    last = (1 << width) - 1
    for digit in range(digits):
        shift = digit * width
        bounds[: last + 2] = 0
        for i in range(len(rows)):
            bounds[unsigned(((np.int64(neighbours[i]) >> shift) & last) + 1)] += 1
        for i in range(last):
            bounds[i + 1] += bounds[i]
        for i in range(len(rows)):
            value = unsigned((np.int64(neighbours[i]) >> shift) & last)
            place = unsigned(bounds[value])
            bounds[value] += 1
            next_rows[place], next_neighbours[place] = rows[i], neighbours[i]
        rows, next_rows = next_rows, rows
        neighbours, next_neighbours = next_neighbours, neighbours
    for i in range(len(rows)):
        row = unsigned(np.int64(rows[i]) - first)
        place = unsigned(places[row])
        places[row] += 1
        next_neighbours[place] = neighbours[i]
    return next_neighbours
