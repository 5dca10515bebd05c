"""The output format ``pyg``: what ``LocalGraphStore`` and ``LocalFeatureStore`` of PyG read.

The files are those of PyG's ``Partitioner`` for the same assignment: ``META.json``, ``node_map`` and
``edge_map``, and for each partition ``part_<i>/graph.pt``, ``node_feats.pt`` and ``edge_feats.pt``. IDs in
them are those of the input. Labels are in ``labels`` too, by ID of the whole graph, as PyG's loaders take
them. torch_geometric is not needed; torch only to load them with `PyG.load`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.errors import UsageError
from partition_ops.formats.columns import Array, Column, StoredArray, row_blocks
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import GROUPS, FileWriter, Format, PartitionSize
from partition_ops.formats.neutral_partition import GRAPH_GROUPS, Partition, WholeGraph
from partition_ops.formats.pyg import checks
from partition_ops.formats.pyg.in_edges import InEdges
from partition_ops.formats.pyg.names import (
    EDGE_FEATURES,
    EDGE_NAMES,
    FEATURES,
    GRAPH,
    LABEL,
    META,
    NODE_FEATURES,
    NODE_NAMES,
    map_file,
    meta,
    names_by_type,
    triple,
)
from partition_ops.formats.torch_files import write_torch_file
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes


class PyG(Format):
    """See `Format`; the folder is ``formats/pyg/``, the root that PyG's stores take."""

    name = "pyg"
    checks = checks.CHECKS
    has_graph = False
    readable = False
    only_in_edges = True

    def part_folder(self, part: int) -> str:
        return f"{self.folder}/part_{part}"

    def check_options(self, formats: Sequence[str], num_hops: int) -> None:
        if num_hops == 0:
            raise UsageError(
                "The output format 'pyg' has all in-edges of a partition's nodes",
                found="--num-hops 0, which leaves out those from other partitions",
                expected="--num-hops 1 or more",
            )

    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        """Do what `Format.partition_files` describes.

        Peak memory of writing: see `InEdges`.
        """
        edges = InEdges(partition)
        totals = str([partition.total_nodes, partition.total_edges])  # which the homogeneous IDs depend on
        writers = {
            GRAPH: ((*GRAPH_GROUPS, "edge_orig_ids"), partial(_graph, edges)),
            NODE_FEATURES: (("node_features", "node_orig_ids"), _node_features),
            EDGE_FEATURES: (
                ("edge_features", "edge_orig_ids", *GRAPH_GROUPS),
                partial(_edge_features, edges),
            ),
        }
        return {
            name: FileWriter(columns, partial(_write, content, partition), options=totals)
            for name, (columns, content) in writers.items()
        }

    def memory(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        return 16 * size.nodes + 48 * size.edges

    def disk(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        return 32 * size.edges + 16 * size.nodes

    def config_files(self, book: Book) -> Mapping[str, bytes]:
        return {META: json_bytes(meta(book))}

    def whole_files(self, graph: WholeGraph) -> Mapping[str, FileWriter]:
        hetero = not graph.book.is_homogeneous
        nodes = names_by_type(graph.names("node_features"), NODE_NAMES)
        edges = names_by_type(graph.names("edge_features"), EDGE_NAMES)
        columns = {
            f"{kind}/{type_name}": map_file(name, type_name, hetero=hetero)
            for kind, name in (("node_parts", "node_map"), ("edge_parts", "edge_map"))
            for type_name in graph.names(kind)
        }
        for type_name, names in nodes.items():
            if LABEL in names:
                label = f"node_features/{type_name}/{names[LABEL]}"
                columns[label] = map_file("labels", type_name, hetero=hetero)

        def write_names(stream: BinaryIO) -> None:
            described = {
                kind: {
                    type_name: {
                        theirs: _described(ours, graph.columns[f"{group}/{type_name}/{ours}"])
                        for theirs, ours in names.items()
                    }
                    for type_name, names in found.items()
                }
                for kind, group, found in (
                    ("nodes", "node_features", nodes),
                    ("edges", "edge_features", edges),
                )
            }
            stream.write(json_bytes(described))

        def write_column(name: str, stream: BinaryIO) -> None:
            write_torch_file(stream, graph.columns[name])

        files = {file: FileWriter([name], partial(write_column, name)) for name, file in columns.items()}
        return {FEATURES: FileWriter((), write_names), **files}

    def arrays(self, output: Store, part: int, *, group: str = "") -> Mapping[str, StoredArray]:
        raise NotImplementedError("PyG's files are not read by this package")  # see `readable`

    def load(self, output: Store, part: int, groups: Collection[str] = GROUPS) -> dict[str, Array]:
        """Do what `Format.load` describes, with ``torch.load``; new IDs follow from PyG's own maps.

        Peak memory: 24 bytes a node of the whole graph, and 80 bytes an edge of the partition.
        """
        return checks.load(self, output, part, groups)

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:
        """Check ``META.json``."""
        checks.check_config(self, findings, output, expected)

    def check_partition(
        self, findings: Findings, output: Store, part: int, expected: Book, options: Mapping[str, Any]
    ) -> None:
        """Check the maps, the labels, and the order and form of the edges."""
        checks.check_partition(self, findings, output, part, expected)


def _described(name: str, column: Column) -> dict[str, Any]:
    return {"name": name, "dtype": column.dtype.name, "shape": list(column.shape[1:])}


def _write(content: Any, partition: Partition, stream: BinaryIO) -> None:
    write_torch_file(stream, content(partition))


def _graph(edges: InEdges, partition: Partition) -> dict[Any, Any]:
    """Return the content of ``graph.pt``: ``edge_id`` counts over all edge types."""
    nodes = dict(zip(partition.node_types, partition.total_nodes, strict=True))
    offsets = _offsets(partition.total_edges)
    found: dict[Any, Any] = {}
    for name, offset in zip(partition.edge_types, offsets, strict=True):
        src, _, dst = triple(name)
        found[triple(name)] = {
            "edge_id": edges.orig(name, offset),
            "row": edges.row(name),
            "col": edges.col(name),
            "size": (nodes[src], nodes[dst]),
        }
    return found[triple(partition.edge_types[0])] if partition.is_homogeneous else found


def _node_features(partition: Partition) -> dict[str, Any]:
    """Return the content of ``node_feats.pt``: ``global_id`` counts over all node types.

    A type without nodes here is left out, because PyG's reader fails on an empty ``global_id``.
    """
    ids = partition.group("node_orig_ids")
    features = names_by_type(partition.names("node_features"), NODE_NAMES)
    found: dict[str, Any] = {}
    for name, offset in zip(partition.node_types, _offsets(partition.total_nodes), strict=True):
        names = features.get(name, {})
        values = {theirs: partition.columns[f"node_features/{name}/{ours}"] for theirs, ours in names.items()}
        if partition.is_homogeneous:
            return {"global_id": ids[name], "feats": values}
        if ids[name].shape[0]:
            found[name] = {"global_id": _shifted(ids[name], offset), "id": ids[name], "feats": values}
    return found


def _edge_features(edges: InEdges, partition: Partition) -> dict[Any, Any]:
    """Return the content of ``edge_feats.pt``, in the order of ``graph.pt``: types with features."""
    features = names_by_type(partition.names("edge_features"), EDGE_NAMES)
    found: dict[Any, Any] = {}
    for name, names in features.items():
        if edges.counts[name]:
            values = {
                theirs: _reordered(partition.columns[f"edge_features/{name}/{ours}"], edges, name)
                for theirs, ours in names.items()
            }
            found[triple(name)] = {"global_id": edges.orig(name), "feats": values}
    return next(iter(found.values()), {}) if partition.is_homogeneous else found


def _offsets(counts: Sequence[int]) -> list[int]:
    return [*accumulate(counts, initial=0)][:-1]


def _shifted(column: Column, offset: int) -> Column:
    def blocks() -> Iterator[Array]:
        for block in column.blocks():
            yield block + offset

    return Column(column.dtype, column.shape, blocks)


def _reordered(column: Column, edges: InEdges, edge_type: str) -> Column:
    """Return a column of a type's edges in the order of `InEdges`, through a temporary file."""

    def blocks() -> Iterator[Array]:
        with tempfile.TemporaryFile() as stream:
            for block in column.blocks():
                stream.write(np.ascontiguousarray(block).data)
            stream.flush()
            if column.nbytes:
                rows = np.memmap(stream, column.dtype, "r", shape=column.shape)
                order = edges.order(edge_type)
                for begin, end in row_blocks(len(rows), rows.nbytes):
                    yield rows[order[begin:end]]

    return Column(column.dtype, column.shape, blocks)
