"""Half-edges in a temporary file, dealt out by range of nodes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.stages.prepare import symmetric


class HalfEdges:
    """What `symmetric.deal` made of every block, one after the other; usable from several threads.

    Args:
        file: Descriptor of a file, open for reading and writing.
        nodes: Number of nodes of all types.
        shift: Of the ranges.

    Attributes:
        ranges: How many ranges of nodes there are.
    """

    def __init__(self, file: int, nodes: int, shift: int) -> None:
        self._file = file
        self._nodes = nodes
        self._shift = shift
        self.ranges = -(-nodes >> shift)
        self._rows = np.dtype(np.uint16 if shift <= 16 else np.uint32)
        self._neighbours = np.dtype(np.int32 if nodes <= 2**31 else np.int64)
        self._lock = threading.Lock()
        self._end = 0
        self._blocks: list[tuple[int, symmetric.Counts]] = []  # where each begins, and its bounds
        self._room: list[tuple[symmetric.Rows, symmetric.Neighbours]] = []  # of threads that wait

    @classmethod
    @contextmanager
    def in_folder(cls, folder: Path, nodes: int, shift: int) -> Iterator[HalfEdges]:
        """With a new file in a folder."""
        with (folder / "half_edges").open("w+b", buffering=0) as stream:
            yield cls(stream.fileno(), nodes, shift)

    def add(self, src: symmetric.Counts, dst: symmetric.Counts, src_offset: int, dst_offset: int) -> None:
        """Write a block of edges; see `symmetric.deal`."""
        bounds = np.empty(self.ranges + 1, np.int64)
        rows, neighbours = self._take_room(2 * len(src))
        symmetric.deal(src, dst, src_offset, dst_offset, self._shift, rows, neighbours, bounds)
        count = int(bounds[-1])
        with self._lock:
            begin = self._end
            self._end += count * (rows.itemsize + neighbours.itemsize)
            self._blocks.append((begin, bounds))
        _write_at(self._file, rows[:count], begin)
        _write_at(self._file, neighbours[:count], begin + count * rows.itemsize)
        self._room.append((rows, neighbours))

    def _take_room(self, count: int) -> tuple[symmetric.Rows, symmetric.Neighbours]:
        """Arrays of at least a size; new memory costs more than writing to it."""
        try:
            room = self._room.pop()
        except IndexError:
            room = None
        if room is None or len(room[0]) < count:
            room = np.empty(count, self._rows), np.empty(count, self._neighbours)
        return room

    def nodes_of(self, number: int) -> slice:
        """The nodes of a range."""
        return slice(number << self._shift, min((number + 1) << self._shift, self._nodes))

    def read(self, number: int) -> tuple[symmetric.Rows, symmetric.Neighbours]:
        """Rows and neighbours of all half-edges of a range, of one block after the other."""
        self._room.clear()  # nothing is added any more
        counts = [int(bounds[number + 1] - bounds[number]) for _, bounds in self._blocks]
        rows = np.empty(sum(counts), self._rows)
        neighbours = np.empty(sum(counts), self._neighbours)
        at = 0
        for count, (begin, bounds) in zip(counts, self._blocks, strict=True):
            first = int(bounds[number])
            _read_at(self._file, rows[at : at + count], begin + first * rows.itemsize)
            behind = begin + int(bounds[-1]) * rows.itemsize
            _read_at(self._file, neighbours[at : at + count], behind + first * neighbours.itemsize)
            at += count
        return rows, neighbours


def _write_at(file: int, array: npt.NDArray[Any], position: int) -> None:
    rest = memoryview(array.data).cast("B")
    while len(rest):
        written = os.pwrite(file, rest, position)
        rest, position = rest[written:], position + written


def _read_at(file: int, array: npt.NDArray[Any], position: int) -> None:
    rest = memoryview(array.data).cast("B")
    while len(rest):
        count = os.preadv(file, [rest], position)
        if count == 0:
            raise EOFError(f"A temporary file ends at byte {position}")
        rest, position = rest[count:], position + count
