"""The output format ``graphstorm``: the folder that GraphStorm takes the partition config from.

It has DGL's files, and two kinds of files that GraphStorm's graph construction writes.
``raw_id_mappings/<node type>/part-<n>.parquet`` lets GraphStorm write predictions and embeddings with the IDs
of the input. ``data_transform_new.json`` has the types of the graph and the shapes of its features, which
GraphStorm stores with a model.

GraphStorm takes arrays of one dimension for labels and masks, and rejects features of one dimension. A
feature with one number a row becomes a matrix with one column, as in its graph construction. Other files are
shared with the format ``dgl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.chunked.metadata import OF_ONE_DIRECTION
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Column
from partition_ops.formats.dgl.array_places import TENSOR_FILES
from partition_ops.formats.dgl.binary_format import write_tensor_file
from partition_ops.formats.dgl.dgl_format import DGL
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import FileWriter
from partition_ops.formats.neutral_partition import Partition, WholeGraph
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes

RECORD = "data_transform_new.json"
ID_MAPS = "raw_id_mappings"
VERSION = "gconstruct-runtime-v0.1"
MOST_ROWS = 1 << 26  # of a Parquet file: 1 GiB
BATCH = 1 << 16
HOMOGENEOUS = (["_N"], ["_N:_E:_N"])  # GraphStorm's names of the types of a homogeneous graph
LABELS = {"label", "labels", "target", "y", "trainer_id"}
ONE_DIMENSION = ("_label", "_labels", "_mask")  # ends of names
RAW_IDS = "graphstorm-raw-ids"
CHECKS = {**DGL.checks, RAW_IDS: "GraphStorm's ID mappings have every node of the input once"}


class GraphStorm(DGL):
    """See `Format`; the folder is ``formats/graphstorm/``."""

    name = "graphstorm"
    version = 2
    checks = CHECKS
    feature_files = ""
    has_matrices = True

    @property
    def folder(self) -> str:
        return f"formats/{self.name}"

    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        files = dict(super().partition_files(partition))
        for group in ("node_features", "edge_features"):
            columns = {name: as_matrix(name, column) for name, column in partition.group(group).items()}
            if any(column is not partition.columns[f"{group}/{name}"] for name, column in columns.items()):
                files[TENSOR_FILES[group]] = FileWriter((group,), partial(_write_features, columns))
        return files

    def whole_files(self, graph: WholeGraph) -> Mapping[str, FileWriter]:
        files = {RECORD: FileWriter((), partial(_write_record, graph))}
        for name, counts in graph.book.node_counts.items():
            for number, begin in enumerate(range(0, max(sum(counts), 1), MOST_ROWS)):
                rows = begin, min(begin + MOST_ROWS, sum(counts))
                files[f"{ID_MAPS}/{name}/part-{number:05}.parquet"] = FileWriter(
                    (), partial(_write_ids, *rows)
                )
        return files

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:
        """Check the partition config, the record of the features, and the ID mappings."""
        super().check_config(findings, output, expected)
        with findings.check("configuration"):
            record = output.read_json(self.key(RECORD))
            nodes = [one["node_type"] for one in record["nodes"]]
            edges = [":".join(one["relation"]) for one in record["edges"]]
            findings.same("configuration", f"node types of {RECORD}", nodes, expected.node_types)
            findings.same("configuration", f"edge types of {RECORD}", edges, expected.edge_types)
            self._check_features(findings, output, record)
        for name, counts in expected.node_counts.items():
            with findings.check(RAW_IDS):
                _check_ids(findings, output, self.key(f"{ID_MAPS}/{name}/"), sum(counts), name)

    def _check_features(self, findings: Findings, output: Store, record: Mapping[str, Any]) -> None:
        """Compare names and shapes of features with those in the files of the first partition."""
        for kind, entries in (("node_features", record["nodes"]), ("edge_features", record["edges"])):
            stored = self.load(output, 0, [kind])
            found: dict[str, tuple[int, ...]] = {}
            for one in entries:
                type_name = one.get("node_type") or ":".join(one["relation"])
                for feature in one.get("features", []):
                    found[f"{kind}/{type_name}/{feature['feature_name']}"] = tuple(feature["feature_dim"])
            for name, values in stored.items():
                if len(values.shape) == 1 and not _is_label(name):
                    findings.fail("configuration", f"{name} has one dimension, which GraphStorm rejects")
            right = {name: values.shape[1:] or (1,) for name, values in stored.items()}
            right = {name: shape for name, shape in right.items() if not name.endswith("/trainer_id")}
            findings.same("configuration", f"{kind} of {RECORD}", found, right)


def as_matrix(name: str, column: Column) -> Column:
    """Return a feature as GraphStorm reads it: a matrix, unless it is a label or a mask."""
    if len(column.shape) > 1 or _is_label(name):
        return column
    return replace(
        column, shape=(*column.shape, 1), blocks=lambda: (block[:, None] for block in column.blocks())
    )


def _is_label(name: str) -> bool:
    """Return whether a column is a label or a mask, by its name, which begins with the type."""
    last = name.rpartition("/")[2]
    return last in LABELS or last.endswith(ONE_DIMENSION) or OF_ONE_DIRECTION.fullmatch(last) is not None


def _write_features(columns: Mapping[str, Column], stream: BinaryIO) -> None:
    write_tensor_file(stream, columns)


def _write_record(graph: WholeGraph, stream: BinaryIO) -> None:
    book = graph.book
    nodes = [
        {"node_type": name, "node_id_col": "orig_id", **_features(graph, f"node_features/{name}/")}
        for name in book.node_types
    ]
    edges = [
        {
            "source_id_col": "src",
            "dest_id_col": "dst",
            "relation": name.split(":"),
            **_features(graph, f"edge_features/{name}/"),
        }
        for name in book.edge_types
    ]
    document = {
        "version": VERSION,
        "is_homogeneous": (book.node_types, book.edge_types) == HOMOGENEOUS,
        "add_reverse_edges": False,
        "nodes": nodes,
        "edges": edges,
    }
    stream.write(json_bytes(document))


def _features(graph: WholeGraph, prefix: str) -> dict[str, Any]:
    """Return the entry of the features of a type; none if there are none."""
    found = [
        {
            "feature_col": name.removeprefix(prefix),
            "feature_name": name.removeprefix(prefix),
            "feature_dim": list(graph.columns[name].shape[1:]) or [1],
        }
        for name in graph.columns
        if name.startswith(prefix)
    ]
    return {"features": found} if found else {}


def _write_ids(begin: int, end: int, stream: BinaryIO) -> None:
    """Write a mapping of IDs of the input to GraphStorm's, which are the same. Peak memory: 1 MiB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("orig", pa.int64()), ("new", pa.int64())])
    with pq.ParquetWriter(stream, schema) as writer:
        for first in range(begin, end, BATCH):
            ids = pa.array(np.arange(first, min(first + BATCH, end)))
            writer.write_batch(pa.record_batch([ids, ids], schema=schema))


def _check_ids(findings: Findings, output: Store, folder: str, count: int, name: str) -> None:
    import pyarrow.parquet as pq

    keys = sorted(entry.key for entry in output.list(folder))
    if not keys:
        raise InvalidInputError(f"There is no {output.uri_of(folder)}", remedy="Run convert again.")
    tables = [pq.read_table(output.local_copy(key)) for key in keys]
    for column in ("orig", "new"):
        found = np.concatenate([table.column(column).to_numpy() for table in tables])
        findings.equal(RAW_IDS, f"{column!r} of {name!r}", found, np.arange(count))
