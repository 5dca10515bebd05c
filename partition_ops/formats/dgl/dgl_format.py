"""The output format ``dgl``: what ``dgl.distributed.load_partition`` and ``DistGraph`` of dgl 1.1.3 read.

``partitions/<graph>.json`` is DGL's partition config. Each partition has five files: ``graph.dgl`` is a graph
file, the other four are tensor files. dgl is not needed: `DGL.load` uses it if it is installed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book
from partition_ops.formats.columns import Array, Column, StoredArray
from partition_ops.formats.dgl.array_places import (
    GRAPH,
    TENSOR_FILES,
    graph_places,
    tensor_places,
)
from partition_ops.formats.dgl.binary_format import (
    CODES,
    GraphColumns,
    Sparse,
    write_graph_file,
    write_tensor_file,
)
from partition_ops.formats.dgl.checks import CHECKS, check_config, check_partition
from partition_ops.formats.dgl.loaded_files import load_graph_file, load_tensor_files
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import GROUPS, FileWriter, Format, PartitionSize
from partition_ops.formats.neutral_partition import GRAPH_GROUPS, Partition
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes

FIELDS = {"_ID": "new_id", "orig_id": "orig_id", "part_id": "part_id", "_TYPE": "type_id"}  # DGL's and ours
FLAGS = {"nodes": "inner_node", "edges": "inner_edge"}
SPARSE = ("indptr", "indices", "edge_ids")


class DGL(Format):
    """See `Format`; the folder is ``partitions/``."""

    name = "dgl"
    checks = CHECKS
    feature_files = "dgl"
    graph_files = "dgl"
    needs_rows = True

    @property
    def folder(self) -> str:
        return layout.PARTITIONS

    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        """Do what `Format.partition_files` describes.

        Peak memory of writing: a few blocks of 1 MiB; with csr or csc in ``graph.dgl`` 8 bytes an edge and,
        for each of them, 16 bytes a node of the partition.
        """

        def write_graph(stream: BinaryIO) -> None:
            write_graph_file(stream, graph_columns(partition))

        return {GRAPH: FileWriter(GRAPH_GROUPS, write_graph, "graph for DGL"), **tensor_files(partition)}

    def memory(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        compressed = _num_compressed(options)
        return 8 * size.edges * (compressed > 0) + 16 * size.nodes * compressed

    def disk(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        types, sparse = 4 * size.typed, 16 * len(options["graph_formats"])
        nodes = (25 + types + 8 * _num_compressed(options)) * size.nodes
        return 8192 + (17 + types + sparse) * size.edges + nodes

    def config_files(self, book: Book) -> Mapping[str, bytes]:
        return {f"{book.graph_name}.json": json_bytes(partition_config(book))}

    def arrays(self, output: Store, part: int, *, group: str = "") -> Mapping[str, StoredArray]:
        found: dict[str, StoredArray] = {}
        if group in ("", *GRAPH_GROUPS):
            found |= self._graph_arrays(output, part)
        return {**found, **tensor_arrays(output, self.part_folder(part), group)}

    def load(self, output: Store, part: int, groups: Collection[str] = GROUPS) -> dict[str, Array]:
        """Do what `Format.load` describes, with DGL's own loaders if DGL is installed."""
        found: dict[str, Array] = {}
        if not {*groups}.isdisjoint(GRAPH_GROUPS):
            found |= self._load_graph(output, part)
        return {**found, **load_tensor_files(output, self.part_folder(part), groups)}

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:
        """Check the partition config."""
        check_config(findings, output, self.key(f"{expected.graph_name}.json"), expected)

    def check_partition(
        self, findings: Findings, output: Store, part: int, expected: Book, options: Mapping[str, Any]
    ) -> None:
        """Check fields and sparse formats of ``graph.dgl``, and what DGL makes of the partition."""
        check_partition(self, findings, output, part, expected, options)

    def _load_graph(self, output: Store, part: int) -> dict[str, Array]:
        graph = load_graph_file(output, f"{self.part_folder(part)}/{GRAPH}")
        found = {"edges/src": graph.src, "edges/dst": graph.dst}
        for kind, data in (("nodes", graph.nodes), ("edges", graph.edges)):
            names = {**FIELDS, FLAGS[kind]: "inner"}
            found |= {f"{kind}/{names[name]}": data[name] for name in data if name in names}
        return found

    def _graph_arrays(self, output: Store, part: int) -> dict[str, StoredArray]:
        places = graph_places(output, f"{self.part_folder(part)}/{GRAPH}")
        found: dict[str, StoredArray] = {}
        for kind, fields in (("nodes", places.nodes), ("edges", places.edges)):
            found |= {f"{kind}/{FIELDS[name]}": fields[name] for name in fields if name in FIELDS}
        for sparse, arrays in places.formats.items():
            if sparse == "coo":
                found |= {"edges/src": arrays[0], "edges/dst": arrays[1]}
            else:
                found |= {f"edges/{sparse}/{name}": a for name, a in zip(SPARSE, arrays, strict=True)}
        return found


class DGLAtRoot(DGL):
    """The same files in the root of the output, where DGL's ``convert_partition.py`` writes them."""

    name = "dgl-at-root"

    @property
    def folder(self) -> str:
        return ""


def tensor_files(partition: Partition) -> dict[str, FileWriter]:
    """Return the tensor files by name: features and original IDs, which DGL's later versions read too."""
    return {
        name: FileWriter((group,), partial(_write_tensors, partition, group), f"{group} for DGL")
        for group, name in TENSOR_FILES.items()
    }


def tensor_arrays(output: Store, folder: str, group: str = "") -> dict[str, StoredArray]:
    """Return the columns of the tensor files in the folder of a partition; see `Format.arrays`."""
    found: dict[str, StoredArray] = {}
    for name, file in TENSOR_FILES.items():
        if group in ("", name):
            places = tensor_places(output, f"{folder}/{file}")
            found |= {f"{name}/{column}": place for column, place in places.items()}
    return found


def graph_columns(partition: Partition) -> GraphColumns:
    """Return the content of ``graph.dgl``, with the fields and dtypes of dgl 1.1.3, and ``orig_id``.

    Nodes: ``inner_node`` uint8, ``_TYPE`` int32, ``part_id``, ``orig_id`` and ``_ID`` (new ID), int64.
    Edges: ``inner_edge`` uint8, ``_TYPE`` int32, ``orig_id`` and ``_ID``, int64. A homogeneous graph has no
    ``_TYPE``, as in DGL. The fields are in the order in which DGL writes them.

    Peak memory: 8 bytes a node for each of the sparse formats csr and csc.
    """
    columns, typed = partition.columns, not partition.is_homogeneous
    nodes = {
        "inner_node": Column.ones_first(partition.num_inner, partition.num_nodes),
        **({"_TYPE": columns["nodes/type_id"]} if typed else {}),
        "part_id": columns["nodes/part_id"],
        "orig_id": columns["nodes/orig_id"],
        "_ID": columns["nodes/new_id"],
    }
    edges = {
        "inner_edge": Column.ones_first(partition.num_own_edges, partition.num_edges),
        **({"_TYPE": columns["edges/type_id"]} if typed else {}),
        "orig_id": columns["edges/orig_id"],
        "_ID": columns["edges/new_id"],
    }
    formats = [_sparse(name, partition) for name in CODES if name in partition.sparse_formats]
    return GraphColumns(partition.num_nodes, formats, nodes, edges)


def partition_config(book: Book) -> dict[str, Any]:
    """Return the partition config, ``<graph>.json``, with the partitions in folders beside it."""
    document = {
        "graph_name": book.graph_name,
        "num_nodes": book.num_nodes,
        "num_edges": book.num_edges,
        "part_method": book.part_method,
        "num_parts": book.num_parts,
        "halo_hops": book.num_hops,
        "node_map": book.node_ranges(),
        "edge_map": book.edge_ranges(),
        "ntypes": {name: type_id for type_id, name in enumerate(book.node_types)},
        "etypes": {name: type_id for type_id, name in enumerate(book.edge_types)},
    }
    for part in range(book.num_parts):
        document[f"part-{part}"] = {
            "node_feats": f"part{part}/{TENSOR_FILES['node_features']}",
            "edge_feats": f"part{part}/{TENSOR_FILES['edge_features']}",
            "part_graph": f"part{part}/{GRAPH}",
        }
    return document


def _num_compressed(options: Mapping[str, Any]) -> int:
    return len({*options["graph_formats"]} - {"coo"})


def _write_tensors(partition: Partition, group: str, stream: BinaryIO) -> None:
    write_tensor_file(stream, partition.group(group))


def _sparse(name: str, partition: Partition) -> Sparse:
    src, dst = partition.columns["edges/src"], partition.columns["edges/dst"]
    if name == "coo":
        return Sparse(name, (src, dst))
    from partition_ops.formats.edge_order import EdgeOrder  # brings numba

    rows, others = (src, dst) if name == "csr" else (dst, src)
    order, edge_ids = EdgeOrder(rows, partition.num_nodes), Column.count(0, partition.num_edges)
    arranged = (order.arrange(column, np.int64) for column in (others, edge_ids))
    return Sparse(name, (Column.of(order.indptr), *arranged))
