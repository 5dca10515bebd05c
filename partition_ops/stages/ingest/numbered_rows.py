"""Rows of tables with the IDs of their nodes: joins of tables with numbered keys that keep to the memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import DST, ORIG_ID, SRC
from partition_ops.stages.ingest.columns import BLOCK, Columns
from partition_ops.stages.ingest.edge_order import MOST_BITS, EdgeOrder, in_order
from partition_ops.stages.ingest.engines import (
    FILE_INDEX,
    ROW_ID,
    ROW_INDEX,
    ROW_KEY,
    DuckDB,
    MemoryShares,
    TableEngine,
)
from partition_ops.stages.ingest.graph_types import EdgeTable, NodeTable
from partition_ops.stages.ingest.keys import Numbered, key_of
from partition_ops.stages.ingest.tables import ParquetTable

RELATION = "relation of row"
JOINED_SHARE = 0.6  # of the engine's memory for the keys of both ends of edges, beside what sorts them


@dataclass(frozen=True)
class NumberedRows:
    """Joins tables with numbered keys."""

    engine: TableEngine  # joins and sorts
    duckdb: DuckDB  # the same, or DuckDB beside it
    memory: MemoryShares  # the shares of memory
    scratch: Path  # folder for what is written in between

    def of_nodes(
        self, node: NodeTable, table: ibis.Table, columns: Columns, numbered: Numbered
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a node table with their IDs, in any order.

        DuckDB joins keys only. The other columns, which may be wide, are read from the files beside it.
        """
        if self.engine is self.duckdb and numbered.unique:
            return self._beside_ids(node, columns, numbered)
        return self.engine.batches(_joined_nodes(node, table, columns, numbered))

    def of_edges(
        self, edge: EdgeTable, table: ibis.Table, columns: Columns, src: Numbered, dst: Numbered
    ) -> Iterator[pa.RecordBatch]:
        """Yield the edges with the IDs of their ends, null if there are none, in order.

        Those of a table of several relations have the relation as `RELATION`, and come by relation. The
        engine sorts these, and all edges if it is not DuckDB; `EdgeOrder` sorts the others.

        If the keys of both ends do not fit into memory together, one end is joined after the other.
        """
        number = src.count * dst.count
        sorted_here = self.engine is self.duckdb and not edge.relation and number.bit_length() <= MOST_BITS
        short = src.joined_bytes + dst.joined_bytes > self.memory.engine * JOINED_SHARE
        staged = self.scratch / "staged"
        staged.mkdir()
        if edge.relation:
            table = table.filter(table[edge.relation].notnull())
        first = {RELATION: relation_of(table, edge)} if edge.relation else {}
        values = first | {f"value_{i}": table[name] for i, name in enumerate(columns.spec.used)}
        rows = table.select(
            src_key=key_of(table, edge.src, src.as_text),
            dst_key=key_of(table, edge.dst, dst.as_text),
            **values,
        )
        src_keys = src.table.select(known_src=src.table.key, **{SRC: src.table[ORIG_ID]})
        dst_keys = dst.table.select(known_dst=dst.table.key, **{DST: dst.table[ORIG_ID]})
        joined = rows.left_join(src_keys, rows.src_key == src_keys.known_src)
        if short:
            joined = self.engine.staged(joined.select(SRC, "dst_key", *values), staged / "src.parquet")
        joined = joined.left_join(dst_keys, joined.dst_key == dst_keys.known_dst).select(SRC, DST, *values)
        if sorted_here:
            types = [columns.source.schema.field(name).type for name in columns.spec.used]
            schema = pa.schema([(ROW_ID, pa.int64()), *zip(values, types, strict=True)])
            folder, block = staged / "edges", self.memory.block
            order = EdgeOrder(schema, dst.count, number, self.duckdb, folder, block)
            pair = (joined[SRC] * dst.count + joined[DST]).cast("int64")
            yield from order.sorted(
                self.engine.batches(
                    joined.select(**{ROW_ID: pair}, **{name: joined[name] for name in values})
                )
            )
            shutil.rmtree(staged)
            return
        if short:
            joined = self.engine.staged(joined, staged / "dst.parquet")
        yield from self.engine.batches(
            joined.order_by(
                *first, SRC, DST, *in_order([joined[name] for name in values if name not in first])
            )
        )
        shutil.rmtree(staged)

    def _beside_ids(self, node: NodeTable, columns: Columns, numbered: Numbered) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the files, and the IDs that DuckDB finds for them in this order."""
        source = columns.source
        table = self.duckdb.indexed("rows_of_nodes", source.paths, source.schema)
        rows = table.select(FILE_INDEX, ROW_INDEX, row_key=key_of(table, node.key, numbered.as_text))
        keys = numbered.table
        found = rows.left_join(keys, rows.row_key == keys.key).order_by(FILE_INDEX, ROW_INDEX)
        found = found.select(**_own_columns(keys, columns))
        ids = _Rows(self.duckdb.batches(found))
        for batch in _batches(source, columns.spec.used, self.memory.block // 4):
            known = ids.take(batch.num_rows)
            for name in known.column_names:
                batch = batch.append_column(name, known.column(name).combine_chunks())
            yield batch.filter(batch.column(ROW_ID).is_valid())


def relation_of(table: ibis.Table, edge: EdgeTable) -> Any:
    """Return the relation of a row, as text."""
    return table[edge.relation].cast("string")


class _Rows:
    """Rows that come in batches, taken in other numbers."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.Table | None = None

    def take(self, count: int) -> pa.Table:
        """Return the next ``count`` rows."""
        parts = [] if self._rest is None else [self._rest]
        while not parts or sum(map(len, parts)) < count:
            parts.append(pa.Table.from_batches([next(self._batches)]))
        table = pa.concat_tables(parts)
        self._rest = table.slice(count)
        return table.slice(0, count)


def _batches(source: ParquetTable, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table in the order of its files and rows, about ``size`` bytes at a time."""
    for path in source.paths:
        with pq.ParquetFile(path, memory_map=True) as file:
            row_bytes = max(_column_bytes(file.metadata, columns) // max(file.metadata.num_rows, 1), 1)
            for batch in file.iter_batches(min(max(size // row_bytes, 1), BLOCK), columns=columns):
                yield batch.select(columns)


def _column_bytes(metadata: pq.FileMetaData, columns: list[str]) -> int:
    """Return the size of columns of a Parquet file, uncompressed."""
    size = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        leaves = (group.column(place) for place in range(group.num_columns))
        for leaf in leaves:
            name = leaf.path_in_schema.removesuffix(".list.element").removesuffix(".list.item")
            size += leaf.total_uncompressed_size if name in columns else 0
    return size


def _joined_nodes(node: NodeTable, table: ibis.Table, columns: Columns, numbered: Numbered) -> ibis.Table:
    """Return the rows of a table with their IDs, one for each key, whatever the order of the rows."""
    names = columns.spec.used
    values = {f"value_{i}": table[name] for i, name in enumerate(names)}
    rows = table.select(row_key=key_of(table, node.key, numbered.as_text), **values)
    if not numbered.unique:
        order = in_order([rows[name] for name in values])
        place = ibis.row_number().over(group_by=rows.row_key, order_by=order)
        rows = rows.mutate(row_place=place)
        rows = rows.filter(rows.row_place == 0)
    keys = numbered.table
    joined = rows.inner_join(keys, rows.row_key == keys.key)
    used = {name: rows[value] for name, value in zip(names, values, strict=True)}
    return joined.select(**_own_columns(keys, columns), **used)


def _own_columns(keys: ibis.Table, columns: Columns) -> dict[str, Any]:
    """Return the columns beside those of a table: the IDs of the rows, and their keys if they are needed."""
    key = {ROW_KEY: keys.key} if columns.needs_key else {}
    return {ROW_ID: keys[ORIG_ID], **key}
