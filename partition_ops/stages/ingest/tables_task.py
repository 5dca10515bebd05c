"""The stage: from the tables of a ``graph.yaml`` to a graph in the chunked format."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import remove_ingested
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, Task
from partition_ops.artifacts.write_access import check_places, check_separate
from partition_ops.chunked.graph_writer import DST, ORIG_ID, SRC, GraphWriter
from partition_ops.chunked.metadata import METADATA, PREVIOUS_ID, PREVIOUS_IDS, REVERSED
from partition_ops.chunked.names import check_graph_name
from partition_ops.chunked.table_files import first_sentence
from partition_ops.errors import InvalidInputError, one_of
from partition_ops.stages.ingest.buckets import Buckets, fill_buckets, fill_in_order
from partition_ops.stages.ingest.columns import BLOCK, Columns
from partition_ops.stages.ingest.engines import (
    ENGINES,
    ROW_ID,
    ROW_KEY,
    DuckDB,
    TableEngine,
    share_memory,
)
from partition_ops.stages.ingest.features import ColumnWriter
from partition_ops.stages.ingest.findings import Findings
from partition_ops.stages.ingest.graph_file import read_graph_file, with_on_removed, with_reverse_edges
from partition_ops.stages.ingest.graph_types import EdgeTable, GraphFile, NodeTable
from partition_ops.stages.ingest.keys import Ends, Numbered, ends_of
from partition_ops.stages.ingest.negatives import ends_as_key, report_false_negatives, write_negatives
from partition_ops.stages.ingest.numbered_rows import RELATION, NumberedRows, relation_of
from partition_ops.stages.ingest.numbering import number_nodes, still_there
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.ingest.patterns import is_pattern
from partition_ops.stages.ingest.previous_graph import MANIFEST, key_files, read_manifest
from partition_ops.stages.ingest.table_source import OpenRoot
from partition_ops.stages.ingest.tables import (
    FoundTable,
    ParquetTable,
    column_names,
    find_table,
    open_table,
)
from partition_ops.storage import Store, open_store
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import full_disk, temporary_folder

GRAPH_FILE = "graph.yaml"
VERSION = 1
Spec = TypeVar("Spec", NodeTable, EdgeTable)


def ingest_task(
    config: IngestConfig,
    source: Store,
    destination: Store,
    *,
    graph_file: str = GRAPH_FILE,
    previous: Store | None = None,
    open_root: OpenRoot = open_store,
    progress: Progress | None = None,
) -> Task:
    """Return the task that writes a graph in the chunked format from the tables of a ``graph.yaml``.

    Nodes are numbered by their keys in ascending order, and edges by the IDs of their ends, so that the graph
    depends on the content of the tables and not on the order of rows, on the engine or on its threads.
    ``node_ids`` in ``metadata.json`` names the keys. ``ingest.json`` has what was fitted and found.

    Args:
        config: Options.
        source: Folder of the ``graph.yaml``.
        destination: Root of the graph.
        graph_file: Name of the ``graph.yaml``.
        previous: Root of an earlier graph that was made in this way and has grown since: its nodes keep their
            IDs, new ones come behind, and its transforms are applied unchanged.
        open_root: Opens the folders of tables elsewhere, with the settings for S3.
        progress: Shows the node and edge types that are done.

    Returns:
        The task; it counts nodes, edges and findings.

    Raises:
        InvalidInputError: ``graph.yaml`` is not valid, a table cannot be read, or tables are not a graph;
            the message names tables, first values, files and rows. There is no ``metadata.json`` then.
        UsageError: The graph would overwrite a table or ``previous``, or ``config.memory`` is less than
            512 MiB.
        StorageError: Memory or temporary disk space ran out.

    Peak memory of the process: ``config.memory`` (default: a quarter of what the machine or its cgroup
    allows), and 8 bytes a training row for fitted buckets. The rest goes to TMPDIR.
    """
    graph = read_graph_file(source, graph_file, graph_name=config.graph_name)
    check_graph_name(graph.graph_name, graph.where)
    if config.reverse_edges:
        graph = with_reverse_edges(graph)
    if config.on_removed is not None:
        graph = with_on_removed(graph, config.on_removed)
    opened = cache(open_root)
    found = {one.name: find_table(one.table, source, opened, one.about) for one in graph.types if one.table}
    files = [file for table in found.values() for file in table.files]
    check_places(
        ((f"{file.store.canonical_uri}/{file.entry.key}", file.identity.key) for file in files),
        destination,
        lambda key: key.split("/")[0] in layout.INGESTED_FOLDERS,
        "A table lies where the graph is written",
    )
    inputs = {file.identity.key: file.identity for file in files}
    options = {**config.options(), "graph": graph.document}
    if previous is not None:
        check_separate(destination, [previous])
        read_manifest(previous)  # before anything is removed
        options["previous"] = hashlib.sha256(previous.read_bytes(METADATA)).hexdigest()

    def work(writer: ArtifactWriter) -> Counters:
        remove_ingested(destination)
        with temporary_folder() as scratch:
            run = _Ingestion(config, graph, found, previous, writer, Path(scratch))
            return run.run(progress or NoProgress())

    return Task("ingest", destination, work, options=options, inputs=[inputs[key] for key in sorted(inputs)])


@dataclass
class _Ingestion:
    """One ingestion at work."""

    config: IngestConfig
    graph: GraphFile
    found: Mapping[str, FoundTable]
    previous: Store | None
    artifacts: ArtifactWriter
    scratch: Path

    def __post_init__(self) -> None:
        self.writer = GraphWriter(self.artifacts.destination, self.graph.graph_name, self.artifacts.wrote)
        self.sources: dict[str, ParquetTable] = {}
        self.tables: dict[str, ibis.Table] = {}
        self.reverses: dict[str, str] = {}
        self.states: dict[str, dict[str, Any]] = {"node_types": {}, "edge_types": {}}
        self.memory = share_memory(self.config.memory)
        self.before = read_manifest(self.previous) if self.previous is not None else None

    def run(self, progress: Progress) -> Counters:
        with ExitStack() as stack:
            self.duckdb = DuckDB(self.scratch, self.memory)
            stack.callback(self.duckdb.close)
            self.engine: TableEngine = self.duckdb
            if self.config.table_engine != "duckdb":
                self.engine = ENGINES[self.config.table_engine](self.scratch, self.memory)
                stack.callback(self.engine.close)
            self.rows = NumberedRows(self.engine, self.duckdb, self.memory, self.scratch)
            self.findings = Findings(self.engine, self.duckdb, self.sources, self.tables)
            steps = 2 * len(self.graph.nodes) + len(self.graph.edges)
            self.background = stack.enter_context(ThreadPoolExecutor(1))
            self.columns_written: Future[tuple[str, dict[str, Any]]] | None = None
            self.given_up = Event()  # of the rows that they are made of
            with self._explained(), progress.step("Ingesting tables", steps, "types") as advance:
                try:
                    return self._run(advance)
                except Exception:
                    self._end_columns()  # its error comes first, as it would without the thread
                    raise
                except BaseException:
                    self.given_up.set()
                    raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Replace errors of libraries about files that are damaged behind their headers."""
        try:
            yield
        except (self.duckdb.errors, pa.ArrowInvalid, OSError) as error:
            of_system = isinstance(error, OSError) and error.errno is not None  # pyarrow's errors have none
            if of_system or isinstance(error, self.duckdb.defects):
                raise
            if (full := full_disk(error)) is not None:
                raise full from error
            raise InvalidInputError(
                f"{self.graph.where}: a table cannot be read",
                found=first_sentence(error),
                expected="files that are not damaged",
                remedy="Write the tables again.",
            ) from error

    def _run(self, advance: Callable[[int], object]) -> Counters:
        self._open_tables()
        numbered = {}
        for index, node in enumerate(self.graph.nodes):
            numbered[node.name] = self._number(index, node)
            advance(1)
        for index, node in enumerate(self.graph.nodes):
            self._write_nodes(index, node, numbered[node.name])
            pa.default_memory_pool().release_unused()
            advance(1)
        for index, edge in enumerate(self.graph.edges):
            if edge.relation:
                self._write_relations(index, edge, numbered)
            else:
                self._write_edges(index, edge, numbered)
            advance(1)
        self._end_columns()
        self.findings.reject(self.graph.where, self._counts())
        manifest = self._manifest()
        self.artifacts.wrote(self.artifacts.destination.write_json(MANIFEST, manifest))
        digest = hashlib.sha256(json_bytes(manifest)).hexdigest()
        more = {REVERSED: self.reverses} if self.reverses else {}
        document = self.writer.finish(**more, ingest={"data": MANIFEST, "sha256": digest})
        return {
            "graph_name": self.graph.graph_name,
            "nodes": sum(document["num_nodes_per_type"]),
            "edges": sum(document["num_edges_per_type"]),
            "findings": {f"{one.check} {one.about}": one.count for one in self.findings.problems},
        }

    def _counts(self) -> dict[str, Any]:
        nodes, edges = self.states["node_types"], self.states["edge_types"]
        return {
            "graph_name": self.graph.graph_name,
            "num_nodes": {name: state["nodes"] for name, state in nodes.items()},
            "num_edges": {name: state["edges"] for name, state in edges.items()},
        }

    def _expand(self, spec: Spec, scratch: Path) -> Spec:
        """Return a type with the columns of its table in place of patterns.

        Raises:
            InvalidInputError: No column matches a pattern.
        """
        if not any(is_pattern(name) for one in spec.features for name in one.columns):
            return spec
        scratch.mkdir()
        names = column_names(self.found[spec.name], scratch, self.duckdb, spec.about)
        features = []
        for one in spec.features:
            matched = {
                name: [name] if name in names or not is_pattern(name) else fnmatch.filter(names, name)
                for name in one.columns
            }
            empty = next((name for name, columns in matched.items() if not columns), None)
            if empty is not None:
                raise InvalidInputError(
                    f"{spec.about}: feature {one.name!r}: no column of the table matches",
                    found=repr(empty),
                    expected=one_of(names),
                )
            columns = tuple(dict.fromkeys(column for some in matched.values() for column in some))
            features.append(replace(one, columns=columns))
        return replace(spec, features=tuple(features))

    def _open_tables(self) -> None:
        nodes = [self._expand(one, self.scratch / f"names{i}") for i, one in enumerate(self.graph.nodes)]
        edges = [self._expand(one, self.scratch / f"names of {i}") for i, one in enumerate(self.graph.edges)]
        self.graph = replace(self.graph, nodes=tuple(nodes), edges=tuple(edges))
        for index, spec in enumerate(one for one in self.graph.types if one.table):
            folder = self.scratch / f"table{index}"
            folder.mkdir()
            columns = list(dict.fromkeys([*spec.keys, *spec.used]))
            as_text = {*spec.keys, *spec.only_text}
            table = open_table(self.found[spec.name], columns, as_text, folder, self.duckdb, spec.about)
            self.sources[spec.name] = table
            self.tables[spec.name] = self.engine.table(f"table_{index}", table.paths, table.schema)
        self.ends = ends_of(self.graph, self.sources, self.tables)

    def _number(self, index: int, node: NodeTable) -> Numbered:
        own = None
        if node.table is not None:
            own = Ends(self.sources[node.name], self.tables[node.name], node.key, node.about)
        old = [] if self.previous is None else key_files(self.previous, node.name)
        return number_nodes(index, node, own, self.ends[node.name], old, self.findings, self.scratch)

    def _end_columns(self) -> None:
        """Wait for the columns that a thread writes.

        Columns of nodes are written by one core, while DuckDB joins edges and no node type with columns
        follows: a quarter of the wall time with 20 million edges and 32 features. Findings, and sections of
        ``metadata.json``, come in the order that they would have without the thread.
        """
        coming, self.columns_written = self.columns_written, None
        if coming is not None:
            name, state = coming.result()
            self.states["node_types"][name] |= state

    def _write_nodes(self, index: int, node: NodeTable, numbered: Numbered) -> None:
        """Write the keys of a type, and begin to write what its table has beside them."""
        columns = None
        if node.used or len(numbered.left_out):
            self._end_columns()
        if node.table is not None:
            columns = Columns(node, self.sources[node.name], self._fitted("node_types", node.name))
        chunk_rows = columns.chunk_rows if columns is not None else 1 << 22
        self.writer.add_nodes(node.name, numbered.count, chunk_rows)
        with pq.ParquetFile(numbered.keys, memory_map=True) as file:
            blocks = (pa.Table.from_batches([batch]) for batch in file.iter_batches(BLOCK))
            self.writer.write_keys(node.name, file.schema_arrow, blocks)
        if len(numbered.left_out):
            self._write_previous_ids(node, numbered)
        if columns is not None and node.used and not self.findings.failed:
            rows = self.rows.of_nodes(node, self.tables[node.name], columns, numbered)
            names = [ROW_ID, *([ROW_KEY] if columns.needs_key else []), *node.used]
            schema = self._schema(names, columns.source, numbered.as_text)
            folder = self.scratch / f"nodes{index}"
            buckets = fill_buckets(rows, schema, folder, numbered.count, self.memory.block)
            self.findings.check_numbers(node)

            def write(columns: Columns = columns) -> tuple[str, dict[str, Any]]:
                self._write_columns(columns, buckets, numbered)
                return node.name, {} if self.findings.failed else columns.state()

            self.given_up = buckets.given_up
            self.columns_written = self.background.submit(write)
        key_type = "text" if numbered.as_text else "int64"
        self.states["node_types"][node.name] = {
            "key": list(node.key),
            "key_type": key_type,
            "nodes": numbered.count,
            "old_nodes": numbered.old,
            "features": {},
        }

    def _write_previous_ids(self, node: NodeTable, numbered: Numbered) -> None:
        """Write which IDs the old nodes had, if others were left out: column ``previous_id``, by ID."""
        schema = pa.schema([(ORIG_ID, pa.int64()), (PREVIOUS_ID, pa.int64())])
        before, found = numbered.old + len(numbered.left_out), 0
        with self.writer.table_file(PREVIOUS_IDS, node.name, schema) as file:
            for begin in range(0, before, BLOCK):
                ids = still_there(begin, min(begin + BLOCK, before), numbered.left_out)
                file.append(pa.table([np.arange(found, found + len(ids)), ids], schema=schema))
                found += len(ids)
        self.writer.add_column(PREVIOUS_IDS, node.name, file, PREVIOUS_ID, num_previous=before)

    def _write_relations(self, index: int, edge: EdgeTable, numbered: Mapping[str, Numbered]) -> None:
        """Write the edges of a table of several relations, which is joined and sorted once."""
        self._end_columns()
        counts = self.findings.check_relations(edge)
        source, table, kind = self.sources[edge.name], self.tables[edge.name], edge.edge_type
        columns = Columns(edge, source, {})
        rows = self.rows.of_edges(edge, table, columns, numbered[kind.src], numbered[kind.dst])
        folder = self.scratch / f"relations{index}"
        folder.mkdir()
        for place, (value, file) in enumerate([*_by_relation(rows, folder)]):  # one query at a time
            one = edge.of_relation(value)
            if one.name in self.states["edge_types"]:
                raise InvalidInputError(
                    f"{self.graph.where}: {edge.about}: there is another edge type of this name",
                    found=f"{edge.relation} {value!r}, which makes {one.name!r}",
                    expected="a name for each edge type",
                )
            self.sources[one.name] = replace(source, rows=counts[value])
            self.tables[one.name] = table.filter(relation_of(table, edge) == value)
            with pq.ParquetFile(file, memory_map=True) as staged:
                self._write_edges(f"{index} {place}", one, numbered, staged.iter_batches(BLOCK))
            file.unlink()

    def _write_edges(
        self,
        index: int | str,
        edge: EdgeTable,
        numbered: Mapping[str, Numbered],
        rows: Iterator[pa.RecordBatch] | None = None,
    ) -> None:
        """Write the edges of a type, those of its table or ``rows``, in the order of their ends."""
        name, kind = edge.name, edge.edge_type
        columns = Columns(edge, self.sources[name], self._fitted("edge_types", name))
        src, dst = numbered[kind.src], numbered[kind.dst]
        if rows is None:
            rows = self.rows.of_edges(edge, self.tables[name], columns, src, dst)
        self.reverses |= {name: str(edge.reverse_type)} if edge.reverse else {}
        key = [ROW_KEY] if columns.needs_key else []
        schema = self._schema([*edge.used, *key], columns.source, True)
        written = edge.used or key
        edges = self.writer.edge_file(kind)
        lost = 0

        def columns_of_edges() -> Iterator[pa.RecordBatch]:
            """Write the ends of edges, and yield their columns."""
            nonlocal lost
            for batch in rows:
                block = known = pa.Table.from_batches([batch])
                if block.column(SRC).null_count or block.column(DST).null_count:
                    known = block.filter(pc.and_(*(block.column(end).is_valid() for end in (SRC, DST))))
                lost += len(block) - len(known)
                edges.append(known.select([SRC, DST]))
                if written:
                    table = known.select([c for c in known.column_names if c not in (SRC, DST)])
                    table = table.rename_columns(edge.used)
                    if key:
                        table = table.append_column(ROW_KEY, ends_as_key(known))
                    yield from table.cast(schema).to_batches()

        with edges:
            folder = self.scratch / f"edges{index}"
            if written:
                buckets = fill_in_order(columns_of_edges(), schema, folder, self.memory.block)
            else:
                for _ in columns_of_edges():
                    pass
        self.writer.add_edges(kind, edges)
        self._end_columns()
        if lost:
            self.findings.report_lost_edges(edge, src, dst)
        if written and not self.findings.failed:
            self.findings.check_numbers(edge)
            self._write_columns(columns, buckets)
        state = columns.state() if not self.findings.failed else {}
        self.states["edge_types"][name] = {
            "src": list(edge.src),
            "dst": list(edge.dst),
            "edges": edges.rows,
            **({"key": list(edge.key)} if edge.key else {}),
            **state,
        }
        if edge.negatives is not None:
            self._write_negatives(edge.negatives, edge, src, dst)

    def _write_negatives(self, pairs: EdgeTable, edge: EdgeTable, src: Numbered, dst: Numbered) -> None:
        columns = Columns(pairs, self.sources[pairs.name], {})
        rows = self.rows.of_edges(pairs, self.tables[pairs.name], columns, src, dst)
        count, lost = write_negatives(pairs, rows, columns, self.writer, self.findings)
        if lost:
            self.findings.report_lost_edges(pairs, src, dst)
        report_false_negatives(self.findings, pairs, edge, src, dst)
        self.states["edge_types"][edge.name]["negatives"] = count

    def _write_columns(self, columns: Columns, buckets: Buckets, numbered: Numbered | None = None) -> None:
        block = self.memory.block
        ColumnWriter(columns, buckets, self.writer, block, self.findings, numbered).write()

    def _schema(self, names: list[str], source: ParquetTable, as_text: bool) -> pa.Schema:
        own = {ROW_ID: pa.int64(), ROW_KEY: pa.string() if as_text else pa.int64()}
        return pa.schema([(n, own[n] if n in own else source.schema.field(n).type) for n in names])

    def _fitted(self, kind: str, name: str) -> dict[str, Any]:
        return dict(self.before[kind].get(name, {})) if self.before is not None else {}

    def _manifest(self) -> dict[str, Any]:
        tables = {
            name: [{"file": file.name, "size": file.entry.size} for file in table.files]
            for name, table in self.found.items()
        }
        manifest = {
            "version": VERSION,
            "graph_name": self.graph.graph_name,
            "tables": tables,
            **self.states,
            "findings": [problem.to_json() for problem in self.findings.problems],
        }
        check_document(manifest, "ingest", where=MANIFEST)
        return manifest


def _by_relation(rows: Iterator[pa.RecordBatch], folder: Path) -> Iterator[tuple[str, Path]]:
    """Write rows, which come by relation, to a file for each relation; yield relation and file."""
    writer, last, path, count_of_files = None, None, folder, 0
    for batch in rows:
        values = batch.column(RELATION)
        batch = batch.drop_columns([RELATION])
        for begin, count in _runs(values):
            value = values[begin].as_py()
            if value != last:
                if writer is not None:
                    writer.close()
                    yield str(last), path
                path, last = folder / f"{count_of_files}.parquet", value
                count_of_files += 1
                writer = pq.ParquetWriter(path, batch.schema, compression="lz4")
            if writer is not None:
                writer.write_batch(batch.slice(begin, count))
    if writer is not None:
        writer.close()
        yield str(last), path


def _runs(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield the first place and the length of each run of equal values."""
    ends = pc.run_end_encode(values).run_ends.to_numpy()
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        yield int(begin), int(end - begin)
