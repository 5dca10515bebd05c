"""`TableGraph`: Arrow tables in memory as a graph, ingested as the tables of a ``graph.yaml`` are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts.tasks import StageResult
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.graph_file import parse_graph_file
from partition_ops.stages.ingest.memory.arrays import MemoryGraph
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.ingest.tables_task import GRAPH_FILE, ingest_task
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import temporary_folder


class _TablesInMemory(LocalStore):
    """Tables that were written to a temporary folder; their names and tags are the same for each call."""

    def __init__(self, root: Path, digests: Mapping[str, str]) -> None:
        super().__init__(root)
        self.digests = digests

    def uri_of(self, key: str) -> str:
        return key.removesuffix(".parquet")

    def stat(self, key: str) -> StoredObject | None:
        found = super().stat(key)
        return found and replace(found, tag=self.digests.get(key, ""))


@dataclass(frozen=True)
class TableGraph(MemoryGraph):
    """Arrow tables as a graph."""

    graph_name: str  # name of the graph
    # by ``src:rel:dst``, a table with a column of keys for each end; others are features
    edges: Mapping[str, pa.Table]
    # by node type, a table with a column of keys; others are features
    nodes: Mapping[str, pa.Table] = field(default_factory=dict)
    src: str = "src"  # the column with the key of the source
    dst: str = "dst"  # the column with the key of the destination
    key: str = "key"  # the column with the key of a node
    numbers_nodes = True

    def __post_init__(self) -> None:
        for what, tables, keys in (
            ("edges", self.edges, (self.src, self.dst)),
            ("nodes", self.nodes, (self.key,)),
        ):
            for name, table in tables.items():
                if not isinstance(table, pa.Table):
                    raise InvalidInputError(
                        f"{what} {name!r} are not a table",
                        found=type(table).__name__,
                        expected="a pyarrow.Table",
                    )
                missing = next((key for key in keys if key not in table.column_names), None)
                if missing is not None:
                    raise InvalidInputError(
                        f"The table of {what} {name!r} has no column {missing!r}",
                        found=f"the columns {', '.join(map(repr, table.column_names))}",
                        remedy="Name the columns of keys with 'src', 'dst' and 'key'.",
                    )
        parse_graph_file(self._document({}, {}), "the tables")  # checks the names of types

    def ingest(
        self, destination: Store, *, graph_name: str | None = None, progress: Progress | None = None
    ) -> StageResult:
        with temporary_folder() as scratch:
            folder = Path(scratch)
            files, digests = {}, {}
            for index, (name, table) in enumerate([*self.nodes.items(), *self.edges.items()]):
                files[name] = f"table{index}.parquet"
                pq.write_table(table.replace_schema_metadata(), folder / files[name])
                digests[files[name]] = hashlib.sha256((folder / files[name]).read_bytes()).hexdigest()
            (folder / GRAPH_FILE).write_bytes(self._document(files, files))
            source = _TablesInMemory(folder, digests)
            config = IngestConfig(graph_name=graph_name or self.graph_name)
            return ingest_task(config, source, destination, progress=progress).run()

    def _document(self, node_files: Mapping[str, str], edge_files: Mapping[str, str]) -> bytes:
        """Return the ``graph.yaml`` of the tables; JSON is YAML."""
        ends = [end for name in self.edges for end in name.split(":")[::2]]
        nodes: dict[str, Any] = dict.fromkeys([*self.nodes, *ends])
        for name, table in self.nodes.items():
            features = dict.fromkeys(column for column in table.column_names if column != self.key)
            nodes[name] = {"table": node_files.get(name, "-"), "key": self.key, "features": features}
        edges = {}
        for name, table in self.edges.items():
            keys = {"src": self.src, "dst": self.dst}
            features = dict.fromkeys(column for column in table.column_names if column not in keys.values())
            edges[name] = {"table": edge_files.get(name, "-"), **keys, "features": features}
        return json.dumps({"graph_name": self.graph_name, "nodes": nodes, "edges": edges}).encode()
