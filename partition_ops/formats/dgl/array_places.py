"""The names of DGL's files, and the places of arrays in them, to map or range-read without loading.

Both kinds of file hold arrays as plain bytes after a short header each (``NDArray::Save`` of dgl 1.1.3):
tensor files (``node_feat.dgl``, ``orig_nids.dgl``), which are named arrays one after the other, and graph
files (``graph.dgl``), which hold the ends of the edges and the node and edge data of one graph. Only the
layout of partitions can be read: one homogeneous graph in one or more sparse formats. dgl is not needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import StoredArray
from partition_ops.formats.dgl.binary_format import (
    ARRAY,
    CODES,
    COO,
    CSR,
    EDGE_TYPE,
    FORMAT_VERSION,
    GRAPH_FILE,
    HEADER_BYTES,
    HETEROGRAPH,
    HETEROGRAPHS,
    IMMUTABLE_GRAPH,
    NODE_TYPE,
    TENSOR_FILE,
    UNIT_GRAPH,
)
from partition_ops.storage import Store

GRAPH = "graph.dgl"
TENSOR_FILES = {  # by the group of columns that each holds
    "node_features": "node_feat.dgl",
    "edge_features": "edge_feat.dgl",
    "node_orig_ids": "orig_nids.dgl",
    "edge_orig_ids": "orig_eids.dgl",
}
PARTITION_FILES = (GRAPH, *TENSOR_FILES.values())
METAGRAPH = (IMMUTABLE_GRAPH, CSR)
WINDOW = 4096  # bytes that are read at once while looking for arrays
KINDS = {0: "i", 1: "u", 2: "f"}
LONGEST_NAME = 1 << 16
CPU = 1  # device of an array


@dataclass(frozen=True)
class GraphPlaces:
    """The arrays of a graph file."""

    # the edges in each sparse format that the file has, int64: local IDs of sources and of destinations, and
    # nothing; or where the edges of each node begin, the nodes at the other end, and the edge IDs
    formats: dict[str, tuple[StoredArray, StoredArray, StoredArray]]
    nodes: dict[str, StoredArray]  # node data by name, (nodes, ...)
    edges: dict[str, StoredArray]  # edge data by name, (edges, ...)


def complete_copy(output: Store, key: str) -> Path:
    """Return the local copy of one of DGL's files. Only headers are read.

    Raises:
        InvalidInputError: The file is missing or damaged, or ends before its arrays do.
    """
    path = output.local_copy(key)
    if key.endswith(f"/{GRAPH}"):
        graph = graph_places(output, key)
        ends = [array for arrays in graph.formats.values() for array in arrays]
        found = [*ends, *graph.nodes.values(), *graph.edges.values()]
    else:
        found = [*tensor_places(output, key).values()]
    size, end = path.stat().st_size, max((array.offset + array.nbytes for array in found), default=0)
    if end > size:
        raise InvalidInputError(
            f"{output.uri_of(key)} is cut short",
            found=f"{size:,} bytes",
            expected=f"{end:,}, as its arrays say",
        )
    return path


def tensor_places(output: Store, key: str) -> dict[str, StoredArray]:
    """Find the arrays of a tensor file, by name.

    Raises:
        InvalidInputError: The file is missing, or is not a tensor file.

    Peak memory: a few KiB; only the headers are read.
    """
    walk = _Walk(output, key, "tensor file")
    walk.words(TENSOR_FILE)
    walk.word()  # the number of arrays, once for the format and once for the list
    return _named_arrays(walk)


def graph_places(output: Store, key: str) -> GraphPlaces:
    """Find the arrays of a partition's graph file.

    Raises:
        InvalidInputError: The file is missing, is not a graph file, or has another layout than partitions.

    Peak memory: a few KiB; only the headers are read.
    """
    walk = _Walk(output, key, "graph file with one homogeneous graph")
    walk.words(GRAPH_FILE, FORMAT_VERSION, HETEROGRAPHS, 1)
    walk.at = HEADER_BYTES
    walk.words(HEADER_BYTES + 16, 0, HETEROGRAPH)
    _skip_metagraph(walk)
    walk.words(1, UNIT_GRAPH)
    code = walk.word() & sum(CODES.values())
    walk.at += 8
    num_nodes: set[int] = set()
    formats = {name: _sparse(walk, name, num_nodes) for name, bit in CODES.items() if code & bit}
    walk.require(bool(formats) and walk.word() == 1)
    num_nodes.add(walk.word())
    walk.words(1)
    nodes = _named_arrays(walk)
    walk.words(1)
    edges = _named_arrays(walk)
    for name in (NODE_TYPE, EDGE_TYPE):
        walk.words(1)
        walk.require(walk.name() == name)
    walk.words(16, 1, HEADER_BYTES + 16, 16)
    walk.require(walk.at_end)
    num_edges = {_rows(arrays[1]) for arrays in formats.values()}
    walk.require(num_nodes == {*num_nodes, *map(_rows, nodes.values())} and len(num_nodes) == 1)
    walk.require(num_edges == {*num_edges, *map(_rows, edges.values())} and len(num_edges) == 1)
    return GraphPlaces(formats, nodes, edges)


def _rows(array: StoredArray) -> int:
    return array.shape[0] if array.shape else -1


def _sparse(walk: _Walk, name: str, num_nodes: set[int]) -> tuple[StoredArray, StoredArray, StoredArray]:
    """Return the three arrays of a sparse format, and add the number of nodes to those that the file has."""
    _skip_metagraph(walk)
    walk.words(COO if name == "coo" else CSR)
    num_nodes |= {walk.word(), walk.word()}
    one, two, ids = walk.array(), walk.array(), walk.array()
    walk.require(one.dtype == two.dtype == np.int64)
    if name == "coo":
        walk.require(one.shape == two.shape and ids.shape == (0,))
    else:
        walk.require(num_nodes == {one.shape[0] - 1} and two.shape == ids.shape)
    walk.at += 2 if name == "coo" else 1  # whether it is sorted
    return one, two, ids


def _skip_metagraph(walk: _Walk) -> None:
    """Read the graph of the types, in which a damaged number lets DGL end the process."""
    walk.words(*METAGRAPH, 1, 1)
    for values in ((0, 1), (0,), (0,)):
        array = walk.array()
        walk.require(array.dtype == np.int64 and array.shape == (len(values),))
        walk.at = array.offset
        walk.words(*values)
    walk.at += 1


def _named_arrays(walk: _Walk) -> dict[str, StoredArray]:
    return {walk.name(): walk.array() for _ in range(walk.word())}


class _Walk:
    """A position in a file that each read moves on."""

    def __init__(self, output: Store, key: str, kind: str) -> None:
        entry = output.stat(key)
        if entry is None:
            raise InvalidInputError(f"There is no {output.uri_of(key)}", remedy="Run convert again.")
        self._output, self._key, self._size = output, key, entry.size
        self._kind = kind
        self._window = b""
        self._begin = 0
        self.at = 0

    def require(self, condition: bool) -> None:
        if not condition:
            raise InvalidInputError(
                f"{self._output.uri_of(self._key)} is not a file of a partition: it has no {self._kind}"
                f" (near byte {self.at})",
                expected="a file that dgl 1.1.3 or the stage 'convert' wrote",
                remedy="Fetch or convert the partition again.",
            )

    def take(self, count: int) -> bytes:
        if not self._begin <= self.at <= self.at + count <= self._begin + len(self._window):
            end = min(self.at + max(count, WINDOW), self._size)
            self._begin = self.at
            self._window = self._output.read_range(self._key, self.at, end) if self.at < end else b""
        begin = self.at - self._begin
        found = self._window[begin : begin + count]
        self.require(len(found) == count)
        self.at += count
        return found

    def word(self) -> int:
        (value,) = struct.unpack("<Q", self.take(8))
        return int(value)

    def words(self, *expected: int) -> None:
        for value in expected:
            self.require(self.word() == value)

    @property
    def at_end(self) -> bool:
        return self.at == self._size

    def name(self) -> str:
        length = self.word()
        self.require(length <= LONGEST_NAME)
        text = self.take(length)
        self.require(text.decode(errors="replace").encode() == text)
        return text.decode()

    def array(self) -> StoredArray:
        """Return the place of the array here, and move after it."""
        self.words(ARRAY)
        reserved, device, number, dimensions, kind, bits, lanes = struct.unpack("<QiiiBBH", self.take(24))
        self.require((reserved, device, number) == (0, CPU, 0))
        self.require(kind in KINDS and bits % 8 == 0 and lanes == 1 and 0 <= dimensions <= 32)
        shape = tuple(self.word() for _ in range(dimensions))
        size = self.word()
        place = StoredArray(self._key, self.at, np.dtype(f"<{KINDS[kind]}{bits // 8}"), shape)
        self.require(place.nbytes == size)
        self.at += size
        return place
