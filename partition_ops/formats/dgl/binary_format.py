"""DGL's two binary formats, graphs and named tensors, written without DGL and as a stream.

The files are byte for byte those that dgl 1.1.3 writes, with two exceptions that its readers ignore: DGL
leaves uninitialised memory in the header of a graph file, which is zero here; and DGL writes the tensors of a
file in the order of a hash table, which is mostly the reverse of their order, as it is here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from partition_ops.formats.columns import Column

HEADER_BYTES = 4096
GRAPH_FILE = 0xDD2E4FF046B4A13F
TENSOR_FILE = 0xDD5A9FBE3FA2443F
ARRAY = 0xDD5E40F096B4A13F
HETEROGRAPH = 0xDD589FBE35224ABF
IMMUTABLE_GRAPH = 0xDD3C5FFE20046ABF
UNIT_GRAPH = 0xDD2E60F0F6B4A127
COO = 0xDD61FFD305DFF127
CSR = 0xDD6CD31205DFF127
FORMAT_VERSION = 2
HETEROGRAPHS = 2  # what a graph file holds
CODES = {"coo": 1, "csr": 2, "csc": 4}
KINDS = {"i": 0, "u": 1, "b": 1, "f": 2}
NODE_TYPE, EDGE_TYPE = "_N", "_E"  # DGL's names if there is one type


@dataclass(frozen=True)
class Sparse:
    """The edges of a graph in one format, int64."""

    name: str  # ``coo``, ``csr`` or ``csc``
    # sources, destinations; or where the edges of each node begin, the nodes at the other end, the edge IDs
    arrays: tuple[Column, ...]


@dataclass(frozen=True)
class GraphColumns:
    """A graph of one node and one edge type, as DGL stores partitions."""

    num_nodes: int  # number of nodes
    formats: Sequence[Sparse]  # its edges, in the order ``coo``, ``csr``, ``csc``
    node_data: Mapping[str, Column]  # fields of the nodes
    edge_data: Mapping[str, Column]  # fields of the edges, in the order of the edge IDs


def write_tensor_file(stream: BinaryIO, columns: Mapping[str, Column]) -> None:
    """Write the file that ``dgl.data.utils.save_tensors`` writes. Peak memory: a block."""
    stream.write(struct.pack("<QQQ", TENSOR_FILE, len(columns), len(columns)))
    _write_named(stream, dict(reversed(list(columns.items()))))


def write_graph_file(stream: BinaryIO, graph: GraphColumns) -> None:
    """Write the file that ``dgl.save_graphs`` writes. Peak memory: a block."""
    header = struct.pack("<4Q", GRAPH_FILE, FORMAT_VERSION, HETEROGRAPHS, 1)
    stream.write(header.ljust(HEADER_BYTES, b"\0"))
    stream.write(struct.pack("<2Q", HEADER_BYTES + 16, 0))  # where the graph begins; there are no labels
    _write_structure(stream, graph)
    for fields in (graph.node_data, graph.edge_data):
        stream.write(struct.pack("<2Q", 1, len(fields)))  # one type, and its fields
        _write_named(stream, fields)
    for name in (NODE_TYPE, EDGE_TYPE):
        stream.write(struct.pack("<Q", 1))
        _write_text(stream, name)
    # the index of the file: its length, one graph, where it begins, its length
    stream.write(struct.pack("<4Q", 16, 1, HEADER_BYTES + 16, 16))


def _write_structure(stream: BinaryIO, graph: GraphColumns) -> None:
    stream.write(struct.pack("<Q", HETEROGRAPH))
    _write_metagraph(stream)
    code = sum(CODES[sparse.name] for sparse in graph.formats)
    # one edge type, whose graph has these formats and may have any
    stream.write(struct.pack("<2Q4I", 1, UNIT_GRAPH, code, 1, sum(CODES.values()), 1))
    for sparse in graph.formats:
        _write_metagraph(stream)
        stream.write(
            struct.pack("<3Q", COO if sparse.name == "coo" else CSR, graph.num_nodes, graph.num_nodes)
        )
        for array in sparse.arrays:
            _write_array(stream, array)
        if sparse.name == "coo":
            _write_array(stream, Column.of(np.empty(0, np.int64)))  # the edges are in the order of their IDs
        stream.write(b"\0\0" if sparse.name == "coo" else b"\0")  # not known to be sorted
    stream.write(struct.pack("<2Q", 1, graph.num_nodes))  # of the one node type


def _write_metagraph(stream: BinaryIO) -> None:
    """Write the graph of the types: one edge from the node type to itself, as CSR."""
    stream.write(struct.pack("<4Q", IMMUTABLE_GRAPH, CSR, 1, 1))
    for array in ([0, 1], [0], [0]):
        _write_array(stream, Column.of(np.array(array, np.int64)))
    stream.write(b"\0")


def _write_named(stream: BinaryIO, columns: Mapping[str, Column]) -> None:
    for name, column in columns.items():
        _write_text(stream, name)
        _write_array(stream, column)


def _write_text(stream: BinaryIO, text: str) -> None:
    data = text.encode()
    stream.write(struct.pack("<Q", len(data)) + data)


def _write_array(stream: BinaryIO, column: Column) -> None:
    dtype, shape = column.dtype, column.shape
    # magic number, reserved, device (1: CPU) and its number, dimensions, dtype
    stream.write(struct.pack("<2Q3I", ARRAY, 0, 1, 0, len(shape)))
    stream.write(struct.pack("<2BH", KINDS[dtype.kind], 8 * dtype.itemsize, 1))
    stream.write(struct.pack(f"<{len(shape)}Q", *shape))
    stream.write(struct.pack("<Q", column.nbytes))
    written = 0
    little = dtype.newbyteorder("<")
    for block in column.blocks():
        data = np.ascontiguousarray(block, little)
        stream.write(data.data)
        written += data.nbytes
    if written != column.nbytes:
        raise RuntimeError(f"{written} bytes of an array of shape {shape} and dtype {dtype}")
