"""Files and rows of the user's tables that the edges of an ingested graph come from, for messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ibis

from partition_ops.artifacts.records import read_record
from partition_ops.chunked.metadata import METADATA, REVERSED
from partition_ops.errors import PartitionOpsError
from partition_ops.stages.ingest.engines import FILE_INDEX, ROW_INDEX, DuckDB, share_memory
from partition_ops.stages.ingest.graph_file import graph_of_document
from partition_ops.stages.ingest.graph_types import EdgeTable, GraphFile
from partition_ops.stages.ingest.keys import key_of
from partition_ops.stages.ingest.previous_graph import MANIFEST, read_manifest
from partition_ops.stages.ingest.table_source import OpenRoot
from partition_ops.stages.ingest.tables import FoundTable, find_table, open_table
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import temporary_folder

MOST_ROWS = 5  # for each pair of keys
SRC_NAME, DST_NAME = "src key", "dst key"
Pair = tuple[Any, Any]
"""The keys of the source and the destination of an edge, as ``node_ids`` of ``metadata.json`` has them."""
Rows = dict[Pair, list[tuple[str, int]]]
"""By pair, the file of the table and the row there, from 0."""


def rows_of_edges(
    graph: Store, wanted: Mapping[str, Collection[Pair]], open_root: OpenRoot
) -> dict[str, Rows]:
    """Return the first rows of the tables that some edges of an ingested graph come from.

    Args:
        graph: Root of the graph that ``ingest`` wrote.
        wanted: By edge type as ``src:rel:dst``, pairs of keys.
        open_root: Opens the folders of tables.

    Returns:
        By edge type, at most five rows for each pair. An edge type is missing if its rows are not known: the
        graph was not made from tables, the table is the result of a query, whose rows have no fixed order, or
        its files have changed or cannot be read.

    Peak memory: that of ``ingest`` while it reads a table. The columns with keys of each table are read once;
    objects on S3 are downloaded.
    """
    if not wanted or not graph.exists(MANIFEST):
        return {}
    found: dict[str, Rows] = {}
    with ExitStack() as stack:
        opened = cache(lambda uri: stack.enter_context(open_root(uri)))
        for name, pairs in wanted.items():
            # the graph may be of arrays, and the table missing, changed or closed to this process
            with suppress(PartitionOpsError, KeyError):
                found[name] = _Finder(graph, opened).find(name, pairs)
    return {name: rows for name, rows in found.items() if rows}


class _Finder:
    """Finds rows in the tables of one graph."""

    def __init__(self, graph: Store, open_root: OpenRoot) -> None:
        self.graph, self.open_root = graph, open_root
        self.record = read_record(graph, "ingest")
        self.manifest = read_manifest(graph)
        self.spec: GraphFile = graph_of_document(self.record["options"]["graph"], graph.uri)
        self.forward = {back: name for name, back in graph.read_json(METADATA).get(REVERSED, {}).items()}

    def find(self, name: str, pairs: Collection[Pair]) -> Rows:
        if name in self.forward:
            turned = self.find(self.forward[name], [(src, dst) for dst, src in pairs])
            return {(src, dst): rows for (dst, src), rows in turned.items()}
        edge = next((one for one in self.spec.edges if _makes(one, name)), None)
        if edge is None or edge.table is None or edge.table.sql:
            return {}
        table = find_table(edge.table, self._folder(edge.name), self.open_root, edge.about)
        if not self._unchanged(table):
            return {}
        with temporary_folder() as scratch:
            return self._look_up(edge, table, name, pairs, Path(scratch))

    def _folder(self, name: str) -> Store:
        """Return the folder of the ``graph.yaml``: paths of tables in it have their names in `manifest`."""
        for entry in self.record["inputs"]:
            for table in self.manifest["tables"].get(name, []):
                if entry["path"].endswith(f"/{table['file']}"):
                    return self.open_root(entry["path"].removesuffix(f"/{table['file']}"))
        return self.graph

    def _unchanged(self, table: FoundTable) -> bool:
        known = {(one["path"], one["size"], one["tag"]) for one in self.record["inputs"]}
        files = [file.identity for file in table.files]
        return bool(files) and all((one.key, one.size, one.tag) in known for one in files)

    def _look_up(
        self, edge: EdgeTable, found: FoundTable, name: str, pairs: Collection[Pair], scratch: Path
    ) -> Rows:
        as_text = [self.manifest["node_types"][node_type]["key_type"] == "text" for node_type, _ in edge.ends]
        types = {key: kind for key, kind in found.spec.types.items() if key in edge.keys}
        found = replace(found, spec=replace(found.spec, types=types))
        with closing(DuckDB(scratch, share_memory(None))) as duckdb:
            columns, place = list(dict.fromkeys(edge.keys)), scratch / "table"
            place.mkdir()
            table = open_table(found, columns, {*edge.keys}, place, duckdb, edge.about)
            rows = duckdb.indexed("located", table.paths, table.schema)
            src, dst = (
                key_of(rows, columns, text).cast("string")
                for (_, columns), text in zip(edge.ends, as_text, strict=True)
            )
            keys = {(str(one), str(other)): (one, other) for one, other in pairs}
            asked = ibis.or_(*((src == one) & (dst == other) for one, other in keys))
            relation = {edge.relation: rows[edge.relation].cast("string")} if edge.relation else {}
            chosen = rows.filter(asked).select(
                **{SRC_NAME: src, DST_NAME: dst, FILE_INDEX: rows[FILE_INDEX], ROW_INDEX: rows[ROW_INDEX]},
                **relation,
            )
            result: Rows = {}
            for row in duckdb.rows(chosen.order_by(FILE_INDEX, ROW_INDEX)):
                if edge.relation and edge.of_relation(str(row[edge.relation])).name != name:
                    continue
                of_pair = result.setdefault(keys[row[SRC_NAME], row[DST_NAME]], [])
                if len(of_pair) < MOST_ROWS:
                    of_pair.append((table.names[row[FILE_INDEX]], row[ROW_INDEX]))
            return result


def _makes(edge: EdgeTable, name: str) -> bool:
    """Return whether a table has edges of a type; with a column of relations it has those of several."""
    if not edge.relation:
        return edge.name == name
    before, _, after = edge.name.partition("*")
    return name.startswith(before) and name.endswith(after)
