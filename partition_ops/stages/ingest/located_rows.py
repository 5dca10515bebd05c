"""Files and rows of the user's tables that nodes and edges of an ingested graph come from, for messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cache
from operator import eq
from pathlib import Path
from typing import Any

import ibis

from partition_ops.artifacts.records import read_record
from partition_ops.chunked.metadata import METADATA, REVERSED
from partition_ops.errors import PartitionOpsError
from partition_ops.stages.ingest.engines import FILE_INDEX, ROW_INDEX, DuckDB, share_memory
from partition_ops.stages.ingest.graph_file import graph_of_document
from partition_ops.stages.ingest.graph_types import EdgeTable, GraphFile, NodeTable
from partition_ops.stages.ingest.keys import key_of
from partition_ops.stages.ingest.previous_graph import MANIFEST, read_manifest
from partition_ops.stages.ingest.table_source import OpenRoot
from partition_ops.stages.ingest.tables import FoundTable, find_table, open_table
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import temporary_folder

MOST_ROWS = 5  # for each node, or each source and destination
Keys = tuple[Any, ...]
"""The key of a node, or those of the source and the destination of an edge, as ``node_ids`` of
``metadata.json`` has them."""
Rows = dict[Keys, list[tuple[str, int]]]
"""By keys, the file of the table and the row there, from 0."""


def rows_of_keys(
    graph: Store, wanted: Mapping[str, Collection[Keys]], open_root: OpenRoot
) -> dict[str, Rows]:
    """Return the first rows of the tables that some nodes and edges of an ingested graph come from.

    Args:
        graph: Root of the graph that ``ingest`` wrote.
        wanted: Keys by node type, or by edge type as ``src:rel:dst``.
        open_root: Opens the folders of tables.

    Returns:
        By type, at most five rows for each node or pair of nodes. A type is missing if its rows are not
        known: the graph was not made from tables, the table is the result of a query, whose rows have no
        fixed order, or its files have changed or cannot be read.

    Peak memory: that of ``ingest`` while it reads a table. The columns with keys of each table are read once;
    objects on S3 are downloaded.
    """
    if not wanted or not graph.exists(MANIFEST):
        return {}
    found: dict[str, Rows] = {}
    with ExitStack() as stack, suppress(PartitionOpsError, KeyError):  # the graph may be of arrays
        finder = _Finder(graph, cache(lambda uri: stack.enter_context(open_root(uri))))
        for name, keys in wanted.items():
            with suppress(PartitionOpsError, KeyError):  # missing, changed or closed to this process
                found[name] = finder.find(name, keys)
    return {name: rows for name, rows in found.items() if rows}


class _Finder:
    """Finds rows in the tables of one graph."""

    def __init__(self, graph: Store, open_root: OpenRoot) -> None:
        self.graph, self.open_root = graph, open_root
        self.record = read_record(graph, "ingest")
        self.manifest = read_manifest(graph)
        self.spec: GraphFile = graph_of_document(self.record["options"]["graph"], graph.uri)
        self.forward = {back: name for name, back in graph.read_json(METADATA).get(REVERSED, {}).items()}

    def find(self, name: str, keys: Collection[Keys]) -> Rows:
        if name in self.forward:
            turned = self.find(self.forward[name], [one[::-1] for one in keys])
            return {one[::-1]: rows for one, rows in turned.items()}
        tables: list[NodeTable | EdgeTable] = [*self.spec.nodes, *self.spec.edges]
        made_of = next((one for one in tables if _makes(one, name)), None)
        if made_of is None or made_of.table is None or made_of.table.sql:
            return {}
        table = find_table(made_of.table, self._folder(made_of.name), self.open_root, made_of.about)
        if not self._unchanged(table):
            return {}
        with temporary_folder() as scratch:
            return self._look_up(made_of, table, name, keys, Path(scratch))

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
        self,
        made_of: NodeTable | EdgeTable,
        found: FoundTable,
        name: str,
        keys: Collection[Keys],
        scratch: Path,
    ) -> Rows:
        edge = made_of if isinstance(made_of, EdgeTable) and made_of.relation else None
        as_text = [
            self.manifest["node_types"][node_type]["key_type"] == "text" for node_type, _ in made_of.ends
        ]
        types = {key: kind for key, kind in found.spec.types.items() if key in made_of.keys}
        found = replace(found, spec=replace(found.spec, types=types))
        with closing(DuckDB(scratch, share_memory(None))) as duckdb:
            columns, place = list(dict.fromkeys(made_of.keys)), scratch / "table"
            place.mkdir()
            table = open_table(found, columns, {*made_of.keys}, place, duckdb, made_of.about)
            rows = duckdb.indexed("located", table.paths, table.schema)
            here = [
                key_of(rows, columns, text).cast("string")
                for (_, columns), text in zip(made_of.ends, as_text, strict=True)
            ]
            wanted = {tuple(map(str, one)): one for one in keys}
            asked = ibis.or_(*(ibis.and_(*map(eq, here, one)) for one in wanted))
            names = [f"key {number}" for number in range(len(here))]
            chosen = rows.filter(asked).select(
                **dict(zip(names, here, strict=True)),
                **{FILE_INDEX: rows[FILE_INDEX], ROW_INDEX: rows[ROW_INDEX]},
                **({edge.relation: rows[edge.relation].cast("string")} if edge else {}),
            )
            result: Rows = {}
            for row in duckdb.rows(chosen.order_by(FILE_INDEX, ROW_INDEX)):
                if edge and edge.of_relation(str(row[edge.relation])).name != name:
                    continue
                of_keys = result.setdefault(wanted[tuple(row[one] for one in names)], [])
                if len(of_keys) < MOST_ROWS:
                    of_keys.append((table.names[row[FILE_INDEX]], row[ROW_INDEX]))
            return result


def _makes(made_of: NodeTable | EdgeTable, name: str) -> bool:
    """Return whether a table has a type; a table with a column of relations has several edge types."""
    if isinstance(made_of, NodeTable) or not made_of.relation:
        return made_of.name == name
    before, _, after = made_of.name.partition("*")
    return name.startswith(before) and name.endswith(after)
