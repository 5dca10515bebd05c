"""The chunks of a graph from ParMETIS's text: metadata, edges by type and ID, and features."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.chunked.names import check_graph_name
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.output_edges import EdgeRowChecks
from partition_ops.formats.parmetis.output_nodes import NodeTypes
from partition_ops.formats.parmetis.schema_metadata import Schema, metadata_of, node_types_of, read_schema
from partition_ops.formats.parmetis.text_files import (
    FEATURE,
    REMOVED_EDGE_COLUMNS,
    common_width,
    edges_file,
    node_columns,
    nodes_file,
    read_text_stats,
    removed_edges_file,
    running_ids,
    stats_file,
)
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable, rows_at_once, text_rows
from partition_ops.storage import Store, StoredObject
from partition_ops.system.mapped_files import new_array, new_npy
from partition_ops.system.progress import Advance, Progress

logger = logging.getLogger("partition_ops")
Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
FLOAT64 = np.dtype(np.float64)
LARGEST_TYPE_ID = 1 << 20  # greater numbers are mistakes, and would overflow keys
HOMOGENEOUS = {"nid": ["_N"], "eid": ["_E"]}  # DGL's names


@dataclass(frozen=True)
class TextAttributes:
    """How the attributes of the text become features.

    If the first row of a file has an attribute that is not a number, the attributes are skipped.
    """

    name: str = FEATURE  # name of the feature of every type
    node_dtype: np.dtype[Any] | None = FLOAT64  # dtype of the attributes of nodes; None skips them
    edge_dtype: np.dtype[Any] | None = FLOAT64  # dtype of the attributes of edges; None skips them
    weights: bool = True  # whether weights that differ between nodes of a type become features too


class TextChunks:
    """Writes the chunks of one graph.

    Args:
        text: Folder with the text.
        graph_name: Name of the graph in the names of the files.
        attributes: How attributes become features.
        folder: Gets the files.
        schema: Names of the types; None for ``<graph>.json``, if there is such a file.
        removed: Name of the file of removed edges; None for that of ``prepare``.
    """

    def __init__(
        self,
        text: Store,
        graph_name: str,
        attributes: TextAttributes,
        folder: Path,
        *,
        schema: Schema | None = None,
        removed: str | None = None,
    ) -> None:
        self.text = text
        self.name = check_graph_name(graph_name, stats_file(graph_name))
        self.attributes = attributes
        self.folder = folder
        self.stats = read_text_stats(text, graph_name)
        self.keys = [nodes_file(graph_name), edges_file(graph_name)]
        self.removed = removed or removed_edges_file(graph_name)
        self.edge_keys = [self.keys[1], *([self.removed] if text.exists(self.removed) else [])]
        self.schema_key = f"{graph_name}.json"
        self.schema = schema
        if schema is None and text.exists(self.schema_key):
            self.schema = read_schema(text, self.schema_key)
        self.features: dict[str, dict[str, dict[str, Any]]] = {"node_data": {}, "edge_data": {}}

    def objects(self) -> list[StoredObject]:
        """Return the identity of every file that was read."""
        keys = [
            stats_file(self.name),
            self.keys[0],
            *self.edge_keys,
            *([self.schema_key] if self.schema else []),
        ]
        return [found for key in keys if (found := self.text.stat(key)) is not None]

    def write(self, progress: Progress) -> None:
        """Write all files; see `TextGraphStore`."""
        node_dtype, edge_dtype = self.attributes.node_dtype, self.attributes.edge_dtype
        columns = node_columns(self.stats[2])
        (nodes,) = self._tables(self.keys[:1], columns, None)
        edges = self._tables(self.edge_keys, REMOVED_EDGE_COLUMNS, None)
        with progress.step("Reading ParMETIS's text", self.stats[0] + self.stats[1], "rows") as advance:
            types, weights = self._node_types(nodes, advance)
            ranges = self._edge_ranges(edges) if self.schema is None else self.schema["eid"]
            where = self.text.uri_of(self.schema_key)
            metadata = metadata_of(ranges, types, edges, graph_name=self.name, where=where)
            (with_values,) = self._tables(self.keys[:1], columns, node_dtype)
            self._write_node_features(with_values, metadata, weights)
            edges = self._tables(self.edge_keys, REMOVED_EDGE_COLUMNS, edge_dtype)
            self._write_edges(edges, metadata, advance)
        for table in (nodes, *edges):
            if not table.width and table.longest > 0:
                logger.warning("%s: the attributes are skipped, because the first row has none", table.where)
        self._write_metadata(metadata)

    def _tables(
        self, keys: Sequence[str], columns: Sequence[str], dtype: np.dtype[Any] | None
    ) -> list[TextTable]:
        """Return tables; those without attributes have no dtype, and none has one if some are not numbers."""
        tables = [TextTable(self.text.local_copy(key), self.text.uri_of(key), columns) for key in keys]
        words = [(table.where, word) for table in tables for word in table.words if dtype is not None]
        if words:
            where, word = words[0]
            logger.warning(
                "%s: the attributes are skipped, because some are not numbers, such as %r", where, word
            )
        for table in tables:
            table.dtype = dtype if table.width and not words else None
        return tables

    def _node_types(self, table: TextTable, advance: Advance) -> tuple[NodeTypes, list[int]]:
        """Check the nodes, and return their types and the numbers of the weights that differ in a type."""
        counts = np.zeros(0, np.int64)
        ranges: dict[int, tuple[Ids, Ids]] = {}  # least and greatest weights by type
        last = 0
        for block in table.blocks():
            types = block.columns["node_type"]
            greatest = np.maximum.accumulate(np.maximum(types, last), dtype=np.int64)
            good = (types >= 0) & (types <= LARGEST_TYPE_ID) & (types == greatest)
            table.require(
                block,
                good,
                "the nodes of a type are not together, in the order of the type IDs",
                lambda bad, most=greatest: f"<node_type> {most[bad]} or more",  # type: ignore[misc]
            )
            last = int(types[-1])
            expected, counts = running_ids(types, counts)
            table.require(
                block,
                block.columns["orig_type_node_id"] == expected,
                "the type-wise IDs of a type do not run from 0 without a gap",
                lambda bad, ids=expected: f"<orig_type_node_id> {ids[bad]}",  # type: ignore[misc]
            )
            self._note_weights(block, ranges)
            advance(len(types))
        table.check_count(int(counts.sum()), self.stats[0], "nodes")
        varying = self.attributes.weights and {
            int(i) for least, most in ranges.values() for i in np.flatnonzero(least != most)
        }
        return self._named_types(table, counts), sorted(varying or ())

    def _note_weights(self, block: TextBlock, ranges: dict[int, tuple[Ids, Ids]]) -> None:
        if self.stats[2] == 0:
            return
        weights = np.stack([block.columns[f"weight{i + 1}"] for i in range(self.stats[2])])
        types = block.columns["node_type"]
        for kind in np.unique(types).tolist():
            of_kind = weights[:, types == kind]
            least, most = of_kind.min(axis=1), of_kind.max(axis=1)
            known = ranges.get(kind, (least, most))
            ranges[kind] = (np.minimum(least, known[0]), np.maximum(most, known[1]))

    def _named_types(self, table: TextTable, counts: Ids) -> NodeTypes:
        if self.schema is None:
            names = HOMOGENEOUS["nid"] if len(counts) == 1 else [f"type{i}" for i in range(len(counts))]
            return NodeTypes(names, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
        types = node_types_of(self.schema["nid"])
        expected = np.diff(types.offsets)
        found = np.concatenate([counts, np.zeros(max(0, len(expected) - len(counts)), np.int64)])
        wrong = np.flatnonzero(found[: len(expected)] != expected)
        if len(wrong) or len(found) > len(expected):
            first = int(wrong[0]) if len(wrong) else len(expected)
            name = types.names[first] if first < len(expected) else "no type of the schema"
            raise InvalidInputError(
                f"{table.where}: the nodes of type {first} ({name}) are not those of the schema",
                found=f"{int(found[first])} nodes",
                expected=f"{int(expected[first])}, as {self.text.uri_of(self.schema_key)} says"
                if first < len(expected)
                else f"types 0 to {len(expected) - 1}",
            )
        return types

    def _edge_ranges(self, tables: Sequence[TextTable]) -> dict[str, list[int]]:
        """Return ranges of edge IDs with made-up names, from the greatest ID of each type."""
        counts, rows = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for table in tables:
            for block in table.blocks():
                kinds, ids = block.columns["edge_type"], block.columns["orig_type_edge_id"]
                good = (kinds >= 0) & (kinds <= LARGEST_TYPE_ID) & (ids >= 0)
                table.require(
                    block, good, "not the ID of an edge", lambda _: "<edge_type> and ID of 0 or more"
                )
                more = np.zeros(max(0, int(kinds.max(initial=-1)) + 1 - len(counts)), np.int64)
                counts, rows = np.concatenate([counts, more]), np.concatenate([rows, more])
                np.maximum.at(counts, kinds, ids + 1)
                rows += np.bincount(kinds, minlength=len(rows))
        wrong = np.flatnonzero(counts != rows)
        if len(wrong):
            kind = int(wrong[0])
            raise InvalidInputError(
                f"{tables[0].where}: the edge IDs of type {kind} have gaps, or one occurs twice",
                found=f"{rows[kind]} edges, and the greatest <type_edge_id> {counts[kind] - 1}",
                expected="the IDs from 0 on, each once",
                remedy=f"Put edges that were removed into {self.removed}, in the columns of the edge file.",
            )
        single = len(counts) == 1
        ends = [0, *np.cumsum(counts).tolist()]
        names = HOMOGENEOUS["eid"] if single else [f"relation{i}" for i in range(len(counts))]
        return {name: ends[i : i + 2] for i, name in enumerate(names)}

    def _write_node_features(self, table: TextTable, metadata: GraphMetadata, weights: Sequence[int]) -> None:
        width = common_width([table])
        if not width and not weights:
            return
        names = metadata.node_types
        arrays = {
            f"weight{i + 1}": self._arrays("node_data", f"weight{i + 1}", names, metadata.num_nodes, ())
            for i in weights
        }
        if width:
            arrays[self.attributes.name] = self._arrays(
                "node_data", self.attributes.name, names, metadata.num_nodes, (width,), table.dtype
            )
        for block in table.blocks():
            kinds, ids = block.columns["node_type"], block.columns["orig_type_node_id"]
            for kind in np.unique(kinds).tolist():
                rows = kinds == kind
                for name, of_name in arrays.items():
                    values = block.columns.get(name, block.attributes)
                    if values is not None:
                        of_name[kind][ids[rows]] = values[rows]

    def _write_edges(self, tables: Sequence[TextTable], metadata: GraphMetadata, advance: Advance) -> None:
        checks = EdgeRowChecks(metadata)
        names = [str(edge_type) for edge_type in metadata.edge_types]
        ends = [
            new_array(self.folder / f"ends{i}", (2, n), np.int64) for i, n in enumerate(metadata.num_edges)
        ]
        width = common_width(tables)
        features = (
            self._arrays(
                "edge_data", self.attributes.name, names, metadata.num_edges, (width,), tables[0].dtype
            )
            if width
            else []
        )
        rows = 0
        for table in tables:
            for block in table.blocks():
                checks.check(table, block)
                src, dst, ids, kinds = (block.columns[name] for name in REMOVED_EDGE_COLUMNS)
                for kind in np.unique(kinds).tolist():
                    mine = kinds == kind
                    ends[kind][:, ids[mine]] = src[mine], dst[mine]
                    if features and block.attributes is not None:
                        features[kind][ids[mine]] = block.attributes[mine]
                rows += len(src)
                advance(len(src))
            if table is tables[0]:
                table.check_count(rows, self.stats[1], "edges")
        checks.require_all(
            expected="every <type_edge_id> of an edge type, from 0 on, once",
            remedy=f"Put edges that were removed into {self.removed}, in the columns of the edge file.",
        )
        for kind, name in enumerate(names):
            self._write_edge_text(f"edges/{name}.csv", ends[kind], metadata, kind)
        for path in self.folder.glob("ends*"):
            path.unlink()

    def _write_edge_text(self, key: str, ends: Ids, metadata: GraphMetadata, kind: int) -> None:
        edge_type = metadata.edge_types[kind]
        first = [
            metadata.node_offsets[metadata.node_type_id(name)] for name in (edge_type.src, edge_type.dst)
        ]
        path, step = self.folder / key, rows_at_once(0)
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as stream:
            for begin in range(0, ends.shape[1], step):
                src, dst = (ends[i, begin : begin + step] - first[i] for i in (0, 1))
                stream.write(text_rows([src, dst]))

    def _arrays(
        self,
        group: str,
        name: str,
        types: Sequence[str],
        counts: Sequence[int],
        shape: tuple[int, ...],
        dtype: np.dtype[Any] | None = None,
    ) -> list[Values]:
        """Make the file of a feature for each type, and return the arrays in them by type ID."""
        found: list[Values] = []
        for kind, count in zip(types, counts, strict=True):
            key = f"{group}/{kind}/{name}.npy"
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            dtype = np.dtype(np.int64) if dtype is None else dtype
            found.append(new_npy(path, (count, *shape), dtype))
            spec = {"format": {"name": "numpy"}, "data": [key]}
            self.features[group].setdefault(kind, {})[name] = spec
        return found

    def _write_metadata(self, metadata: GraphMetadata) -> None:
        edge_types = [str(edge_type) for edge_type in metadata.edge_types]
        text = {"name": "csv", "delimiter": " ", "header": False}
        document = {
            "graph_name": metadata.graph_name,
            "node_type": list(metadata.node_types),
            "num_nodes_per_chunk": [[count] for count in metadata.num_nodes],
            "edge_type": edge_types,
            "num_edges_per_chunk": [[count] for count in metadata.num_edges],
            "edges": {name: {"format": text, "data": [f"edges/{name}.csv"]} for name in edge_types},
            **self.features,
        }
        (self.folder / METADATA).write_text(json.dumps(document, indent=2) + "\n")
