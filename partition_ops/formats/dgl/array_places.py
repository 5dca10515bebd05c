"""Places of arrays inside DGL's files, so that they can be mapped or range-read without being loaded.

Both kinds of file hold arrays as plain bytes after a short header each (``NDArray::Save`` of dgl 1.1.3):
tensor files (``node_feat.dgl``, ``orig_nids.dgl``), which are named arrays one after the other, and graph
files (``graph.dgl``), which hold the ends of the edges and the node and edge data of one graph. Only the
layout of partitions can be read: one homogeneous graph in one or more sparse formats. dgl is not needed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.formats.dgl.binary_format import (
    ARRAY,
    CODES,
    COO,
    CSR,
    GRAPH_FILE,
    HEADER_BYTES,
    HETEROGRAPH,
    IMMUTABLE_GRAPH,
    TENSOR_FILE,
    UNIT_GRAPH,
)
from partition_ops.storage import Store

ReadAt = Callable[[int, int], bytes]

METAGRAPH = (IMMUTABLE_GRAPH, CSR)
WINDOW = 4096  # bytes that are read at once while looking for arrays
KINDS = {0: "i", 1: "u", 2: "f"}
LONGEST_NAME = 1 << 16


@dataclass(frozen=True)
class ArrayPlace:
    """An array inside a file.

    Attributes:
        offset: Position of its first byte; need not be aligned.
        dtype: Its dtype.
        shape: Its shape; C order.
    """

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def num_bytes(self) -> int:
        return self.shape[0] * self.row_bytes if self.shape else self.dtype.itemsize


@dataclass(frozen=True)
class GraphPlaces:
    """The arrays of a graph file.

    Attributes:
        num_nodes: Number of nodes.
        formats: The edges in each sparse format that the file has, int64: local IDs of sources and of
            destinations, and nothing; or where the edges of each node begin, the nodes at the other end, and
            the edge IDs.
        nodes: Node data by name, (nodes, ...).
        edges: Edge data by name, (edges, ...).
    """

    num_nodes: int
    formats: dict[str, tuple[ArrayPlace, ArrayPlace, ArrayPlace]]
    nodes: dict[str, ArrayPlace]
    edges: dict[str, ArrayPlace]


def read_file_at(path: Path) -> ReadAt:
    """Return a function that reads a local file, for `tensor_places` and `graph_places`."""

    def read(offset: int, count: int) -> bytes:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(count)

    return read


def read_object_at(store: Store, key: str, size: int) -> ReadAt:
    """Return a function that reads a stored object of ``size`` bytes by range requests."""

    def read(offset: int, count: int) -> bytes:
        return store.read_range(key, offset, min(offset + count, size)) if offset < size else b""

    return read


def tensor_places(read: ReadAt, where: str) -> dict[str, ArrayPlace]:
    """Find the arrays of a tensor file, by name.

    Args:
        read: Reads the file.
        where: Its URI, for messages.

    Raises:
        InvalidInputError: It is not a tensor file.

    Peak memory: a few KiB; only the headers are read.
    """
    walk = _Walk(read, where, "tensor file")
    walk.magic(TENSOR_FILE)
    walk.word()  # the number of arrays, once for the format and once for the list
    return _named_arrays(walk)


def graph_places(read: ReadAt, where: str) -> GraphPlaces:
    """Find the arrays of a partition's graph file.

    Args:
        read: Reads the file.
        where: Its URI, for messages.

    Raises:
        InvalidInputError: It is not a graph file, or has another layout than partitions.

    Peak memory: a few KiB; only the headers are read.
    """
    walk = _Walk(read, where, "graph file with one homogeneous graph")
    walk.magic(GRAPH_FILE)
    walk.at = HEADER_BYTES + 16
    walk.magic(HETEROGRAPH)
    _skip_metagraph(walk)
    walk.require(walk.word() == 1)  # relations
    walk.magic(UNIT_GRAPH)
    code = walk.word() & sum(CODES.values())
    walk.at += 8
    formats = {name: _sparse(walk, name) for name, bit in CODES.items() if code & bit}
    walk.require(bool(formats) and walk.word() == 1)
    num_nodes = walk.word()
    walk.require(walk.word() == 1)
    nodes = _named_arrays(walk)
    walk.require(walk.word() == 1)
    return GraphPlaces(num_nodes, formats, nodes, _named_arrays(walk))


def _sparse(walk: _Walk, name: str) -> tuple[ArrayPlace, ArrayPlace, ArrayPlace]:
    """Return the three arrays of a sparse format."""
    _skip_metagraph(walk)
    walk.magic(COO if name == "coo" else CSR)
    num_nodes = walk.word()
    walk.require(walk.word() == num_nodes)
    one, two, ids = walk.array(), walk.array(), walk.array()
    walk.require(one.dtype == two.dtype == np.int64)
    if name == "coo":
        walk.require(one.shape == two.shape and ids.shape == (0,))
    else:
        walk.require(one.shape == (num_nodes + 1,) and two.shape == ids.shape)
    walk.at += 2 if name == "coo" else 1  # whether it is sorted
    return one, two, ids


def _skip_metagraph(walk: _Walk) -> None:
    for magic in METAGRAPH:
        walk.magic(magic)
    walk.at += 16
    for _ in range(3):
        walk.array()
    walk.at += 1


def _named_arrays(walk: _Walk) -> dict[str, ArrayPlace]:
    return {walk.name(): walk.array() for _ in range(walk.word())}


class _Walk:
    """A position in a file that each read moves on."""

    def __init__(self, read: ReadAt, where: str, kind: str) -> None:
        self._read = read
        self._where = where
        self._kind = kind
        self._window = b""
        self._begin = 0
        self.at = 0

    def require(self, condition: bool) -> None:
        if not condition:
            raise InvalidInputError(
                f"{self._where} is not a file of a partition: it has no {self._kind} (near byte {self.at})",
                expected="a file that dgl 1.1.3 or the stage 'convert' wrote",
                remedy="Fetch or convert the partition again.",
            )

    def take(self, count: int) -> bytes:
        if not self._begin <= self.at <= self.at + count <= self._begin + len(self._window):
            self._begin, self._window = self.at, self._read(self.at, max(count, WINDOW))
        begin = self.at - self._begin
        found = self._window[begin : begin + count]
        self.require(len(found) == count)
        self.at += count
        return found

    def word(self) -> int:
        (value,) = struct.unpack("<Q", self.take(8))
        return int(value)

    def magic(self, expected: int) -> None:
        self.require(self.word() == expected)

    def name(self) -> str:
        length = self.word()
        self.require(length <= LONGEST_NAME)
        return self.take(length).decode()

    def array(self) -> ArrayPlace:
        """Return the place of the array here, and move after it."""
        self.magic(ARRAY)
        _, _, _, dimensions, kind, bits, lanes = struct.unpack("<QiiiBBH", self.take(24))
        self.require(kind in KINDS and bits % 8 == 0 and lanes == 1 and 0 <= dimensions <= 32)
        shape = tuple(self.word() for _ in range(dimensions))
        size = self.word()
        place = ArrayPlace(self.at, np.dtype(f"<{KINDS[kind]}{bits // 8}"), shape)
        self.require(place.num_bytes == size)
        self.at += size
        return place
