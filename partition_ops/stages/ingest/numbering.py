"""Number the nodes of each type: keys in ascending order get the IDs 0, 1, 2, …

The numbers are the rows of a file of keys, so they are contiguous, and they depend on the keys and not on the
order of rows or on the engine. In a grown graph the old keys come first, as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import ORIG_ID, blocks_of
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import DuckDB, TableEngine
from partition_ops.stages.ingest.graph_file import GraphFile, NodeTable
from partition_ops.stages.ingest.problems import Problem, count_of, rows_where, sentences, shown
from partition_ops.stages.ingest.tables import ParquetTable

KEY = "key"
JOINED_ROW = 64  # bytes of a row of a hash table, without its key
KEYS = 1 << 17  # in a row group
SEPARATOR, ESCAPES = "|", (("%", "%25"), ("|", "%7C"))


@dataclass(frozen=True)
class Ends:
    """Columns of a table with keys of a node type."""

    source: ParquetTable
    table: ibis.Table
    columns: tuple[str, ...]
    about: str
    adds: bool = False


@dataclass(frozen=True)
class Numbered:
    """The numbered nodes of a type.

    Attributes:
        keys: Parquet file with the columns ``orig_id`` and ``key``.
        table: The same, for expressions.
        as_text: Whether keys are text; otherwise they are int64.
        count: Number of nodes.
        in_table: How many of them have a row in the table of the type.
        old: How many of them are of the previous graph.
        unique: Whether no key is twice in the table.
    """

    keys: Path
    table: ibis.Table
    as_text: bool
    count: int
    in_table: int
    old: int
    unique: bool

    @property
    def joined_bytes(self) -> int:
        """About how many bytes of memory the keys take in a join."""
        meta = pq.read_metadata(self.keys)
        groups = (meta.row_group(index) for index in range(meta.num_row_groups))
        keys = sum(int(group.column(1).total_uncompressed_size) for group in groups)
        return self.count * JOINED_ROW + keys


def key_of(table: ibis.Table, columns: Sequence[str], as_text: bool) -> Any:
    """Return the key of a row: int64 or text; several columns are joined by ``|``.

    In joined columns ``%`` and ``|`` are written as ``%25`` and ``%7C``.
    """
    if len(columns) == 1:
        return table[columns[0]].cast("string" if as_text else "int64")
    parts = []
    for name in columns:
        part = table[name].cast("string")
        for plain, escaped in ESCAPES:
            part = part.replace(plain, escaped)
        parts.append(part)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + SEPARATOR + part
    return joined


def keys_are_text(ends: Sequence[Ends]) -> bool:
    """Return whether the keys of a node type are compared as text: if any table has them as text.

    Raises:
        InvalidInputError: A column of keys has a type that is no key.
    """
    as_text = False
    for end in ends:
        for column in end.columns:
            kind = end.source.schema.field(column).type
            text = pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind)
            if not text and (not pa.types.is_integer(kind) or pa.types.is_uint64(kind)):
                raise InvalidInputError(
                    f"{end.about}: the column {column!r} of {end.source.name} cannot be a key",
                    found=str(kind),
                    expected="whole numbers or text",
                    remedy=f"Set its type in graph.yaml: types: {{{column}: int64}} or {{{column}: text}}.",
                )
            as_text |= text or len(end.columns) > 1
    return as_text


@dataclass(frozen=True)
class Numbering:
    """Numbers the node types of a graph.

    Attributes:
        engine: Joins and sorts.
        duckdb: Finds rows for messages.
        scratch: Folder for the files of keys.
        problems: Findings are appended to it.
    """

    engine: TableEngine
    duckdb: DuckDB
    scratch: Path
    problems: list[Problem]

    def number(
        self, index: int, node: NodeTable, own: Ends | None, others: Sequence[Ends], old: Sequence[Path]
    ) -> Numbered:
        """Number the nodes of a type.

        Args:
            index: Node type ID.
            node: The node type.
            own: The keys of its table, if it has one.
            others: The keys that edges name.
            old: Files of keys of the previous graph, in order.

        Raises:
            InvalidInputError: Columns of keys have wrong types, or old nodes are gone.

        Peak memory: that of the engine, and a block of keys.
        """
        as_text = keys_are_text([*([own] if own else []), *others])
        before = self._old_keys(index, node, old, as_text)
        in_table, unique = 0, True
        if own is not None:
            in_table, unique = self._check_table(node, own, as_text)
            if before is not None:
                self._check_gone(node, own, before, as_text)
        adding = [end for end in others if end.adds or own is None]
        wanted = [*([own] if own else []), *adding]
        keys = (
            ibis.union(*(self._keys(end, as_text) for end in wanted), distinct=True)
            if wanted[1:]
            else (self._keys(wanted[0], as_text).distinct())
        )
        if before is not None:
            keys = keys.anti_join(before.select("key"), KEY)
        path = self.scratch / f"keys{index}.parquet"
        num_old = sum(pq.read_metadata(file).num_rows for file in old)
        count = self._write(path, _old_batches(old), self.engine.batches(keys.order_by(KEY)), as_text)
        table = self.engine.table(f"keys_{index}", [path], _schema(as_text))
        if own is not None and before is None and count > in_table:
            self._report_added(node, own, table, count - in_table, as_text)
        return Numbered(path, table, as_text, count, in_table, num_old, unique)

    def _keys(self, end: Ends, as_text: bool) -> ibis.Table:
        keys = end.table.select(key=key_of(end.table, end.columns, as_text))
        return keys.filter(keys.key.notnull())

    def _write(
        self, path: Path, old: Iterator[pa.RecordBatch], new: Iterator[pa.RecordBatch], as_text: bool
    ) -> int:
        schema, count = _schema(as_text), 0
        with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as writer:
            for block in blocks_of(chain(old, new), KEYS):
                ids = pa.array(np.arange(count, count + len(block)))
                keys = block.column(KEY).cast(schema.field(KEY).type)
                writer.write_table(pa.table([ids, keys], schema=schema), row_group_size=KEYS)
                count += len(block)
        return count

    def _old_keys(self, index: int, node: NodeTable, old: Sequence[Path], as_text: bool) -> ibis.Table | None:
        if not old:
            return None
        was_text = pa.types.is_string(pq.read_schema(old[0]).field(KEY).type)
        if was_text != as_text:
            raise InvalidInputError(
                f"nodes {node.name!r}: the keys are not as in the previous graph",
                found="text" if as_text else "whole numbers",
                expected="text" if was_text else "whole numbers",
                remedy="Set the type of the columns of keys with 'types'.",
            )
        return self.engine.table(f"old_keys_{index}", old, _schema(as_text))

    def _check_table(self, node: NodeTable, own: Ends, as_text: bool) -> tuple[int, bool]:
        """Look for null keys and for keys that are there twice; return the number of distinct keys."""
        keys = own.table.select(key=key_of(own.table, own.columns, as_text))
        counts = self.engine.one(keys.aggregate(nulls=keys.key.isnull().sum(), distinct=keys.key.nunique()))
        nulls, distinct = int(counts["nulls"] or 0), int(counts["distinct"])
        if nulls:
            about, action = f"nodes {node.name!r}", node.actions["null_keys"]
            self.problems.append(
                null_keys(own.source, own.columns, about, node.name, nulls, action, self.duckdb)
            )
        again = own.source.rows - nulls - distinct
        if again:
            self.problems.append(
                Problem(
                    "duplicate_keys",
                    node.name,
                    f"{count_of(again, 'row')} of {own.source.name} (nodes {node.name!r})"
                    f" with a key in {', '.join(own.columns)} that another row has",
                    again,
                    node.actions["duplicate_keys"],
                    self._duplicates(own),
                    "Remove them, or keep the first in the order of their columns with on_defect:"
                    " {duplicate_keys: drop}.",
                )
            )
        return distinct, not again

    def _duplicates(self, own: Ends) -> list[str]:
        """Return sentences about the first keys that are there twice, with the rows of each."""

        def twice(table: ibis.Table) -> Any:
            key = key_of(table, own.columns, True)
            keys = table.select(key=key).filter(key.notnull()).group_by("key").agg(n=lambda t: t.count())
            some = keys.filter(keys.n > 1).order_by("key").limit(5)
            return key.isin(some.key)

        rows = rows_where(own.source, twice, own.columns, self.duckdb, 20)
        return sorted(sentences(own.source, rows, own.columns))

    def _check_gone(self, node: NodeTable, own: Ends, before: ibis.Table, as_text: bool) -> None:
        """Reject a table without a node of the previous graph.

        Raises:
            InvalidInputError: There are such nodes; the message names the first.
        """
        now = self._keys(own, as_text)
        gone = before.anti_join(now, KEY)
        count = int(self.engine.one(gone.aggregate(n=gone.count()))["n"])
        if count:
            first = [shown(row[KEY]) for row in self.engine.rows(gone.order_by(ORIG_ID).limit(5))]
            raise InvalidInputError(
                f"nodes {node.name!r}: {count_of(count, 'node')} of the previous graph have no row in"
                f" {own.source.name}",
                found=", ".join(first),
                expected="every old node: their IDs stay, so they cannot be left out",
                remedy="Add their rows, or ingest without --previous.",
            )

    def _report_added(self, node: NodeTable, own: Ends, keys: ibis.Table, count: int, as_text: bool) -> None:
        """Report the nodes that only edges name."""
        added = keys.anti_join(self._keys(own, as_text), KEY).order_by(ORIG_ID).limit(10)
        examples = [f"{node.name} {shown(row[KEY])}" for row in self.engine.rows(added)]
        sentence = f"{count_of(count, 'key')} of {node.name!r} named by edges and not in {own.source.name}"
        self.problems.append(Problem("absent_keys", node.name, sentence, count, "add", examples))


def ends_of(
    graph: GraphFile, sources: Mapping[str, ParquetTable], tables: Mapping[str, ibis.Table]
) -> dict[str, list[Ends]]:
    """Return, by node type, the columns of all edge tables that name its keys."""
    found: dict[str, list[Ends]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        adds = edge.actions["absent_keys"] == "add"
        name = str(edge.edge_type)
        for node_type, columns in ((edge.edge_type.src, edge.src), (edge.edge_type.dst, edge.dst)):
            about = f"edges {name!r}"
            found[node_type].append(Ends(sources[name], tables[name], columns, about, adds))
    return found


def null_keys(
    source: ParquetTable, columns: Sequence[str], about: str, of: str, count: int, action: str, duckdb: DuckDB
) -> Problem:
    """Return the finding about rows of nodes or edges without a key."""
    rows = rows_where(source, lambda t: key_of(t, columns, True).isnull(), columns, duckdb)
    return Problem(
        "null_keys",
        of,
        f"{count_of(count, 'row')} of {source.name} ({about}) without a key in {', '.join(columns)}",
        count,
        action,
        sentences(source, rows, columns),
        "Correct the rows, or leave them out with on_defect: {null_keys: drop}.",
    )


def _schema(as_text: bool) -> pa.Schema:
    return pa.schema([(ORIG_ID, pa.int64()), (KEY, pa.string() if as_text else pa.int64())])


def _old_batches(old: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in old:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield from file.iter_batches(columns=[KEY])
