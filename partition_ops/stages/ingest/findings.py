"""Findings about rows: edges that were left out, values that are missing or are no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import pyarrow as pa

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import DuckDB, TableEngine
from partition_ops.stages.ingest.features import Columns
from partition_ops.stages.ingest.graph_file import EdgeTable
from partition_ops.stages.ingest.numbering import KEY, Numbered, key_of, null_keys
from partition_ops.stages.ingest.problems import Problem, count_of, rows_where, sentences
from partition_ops.stages.ingest.tables import ParquetTable


@dataclass(frozen=True)
class Findings:
    """Finds rows of tables for messages.

    Attributes:
        engine: Counts rows.
        duckdb: Finds rows, whatever the engine is.
        sources: The tables by type.
        tables: The same, for expressions.
        problems: Findings are appended to it.
    """

    engine: TableEngine
    duckdb: DuckDB
    sources: Mapping[str, ParquetTable]
    tables: Mapping[str, ibis.Table]
    problems: list[Problem]

    def report_lost_edges(self, edge: EdgeTable, src: Numbered, dst: Numbered) -> None:
        """Report the edges that were left out: those without a key, and those with an absent one."""
        name = str(edge.edge_type)
        source, table = self.sources[name], self.tables[name]
        for columns, numbered, node_type in (
            (edge.src, src, edge.edge_type.src),
            (edge.dst, dst, edge.edge_type.dst),
        ):
            key = key_of(table, columns, numbered.as_text)
            keys = table.select(key=key)
            nulls = int(self.engine.one(keys.aggregate(n=keys.key.isnull().sum()))["n"] or 0)
            if nulls:
                about, action = f"edges {name!r}", edge.actions["null_keys"]
                self.problems.append(null_keys(source, columns, about, name, nulls, action, self.duckdb))
            absent = keys.filter(keys.key.notnull()).anti_join(numbered.table.select("key"), KEY)
            counts = self.engine.one(absent.aggregate(n=absent.count(), keys=absent.key.nunique()))
            if counts["n"]:
                self._report_absent(edge, columns, numbered, node_type, counts)

    def _report_absent(
        self, edge: EdgeTable, columns: tuple[str, ...], numbered: Numbered, node_type: str, counts: Any
    ) -> None:
        name = str(edge.edge_type)
        source = self.sources[name]
        keys = self._keys_of(numbered)
        rows = rows_where(
            source,
            lambda t: (
                key_of(t, columns, numbered.as_text).notin(keys.key)
                & key_of(t, columns, numbered.as_text).notnull()
            ),
            columns,
            self.duckdb,
        )
        self.problems.append(
            Problem(
                "absent_keys",
                name,
                f"{count_of(counts['n'], 'row')} of {source.name} (edges {name!r}) whose {node_type} in"
                f" {', '.join(columns)} is not in {self.sources[node_type].name}"
                f" ({count_of(counts['keys'], 'key')})",
                counts["n"],
                edge.actions["absent_keys"],
                sentences(source, rows, columns),
                "Correct the tables, or set on_defect: {absent_keys: drop} (or add) for the edges.",
            )
        )

    def rows_without(self, columns: Columns, keys: tuple[str, ...], column: str) -> list[str]:
        """Return sentences about the first rows in which a column is null."""
        names = list(dict.fromkeys([*keys, column]))
        rows = rows_where(columns.source, lambda t: t[column].isnull(), names, self.duckdb)
        return sentences(columns.source, rows, names)

    def rows_of(
        self, columns: Columns, keys: tuple[str, ...], numbered: Numbered | None, ids: list[int]
    ) -> list[str]:
        """Return sentences about the rows of nodes with some IDs."""
        if numbered is None:
            return []
        known = self._keys_of(numbered)
        wanted = [row[KEY] for row in self.duckdb.rows(known.filter(known[ORIG_ID].isin(ids)))]
        rows = rows_where(
            columns.source, lambda t: key_of(t, keys, numbered.as_text).isin(wanted), keys, self.duckdb
        )
        return sentences(columns.source, rows, keys)

    def check_numbers(self, columns: Columns, keys: tuple[str, ...]) -> None:
        """Reject a feature of numbers whose column has text, with the first values that are no numbers.

        Raises:
            InvalidInputError: There is one.
        """
        for feature in columns.features:
            kind = columns.source.schema.field(feature.column).type
            if feature.transform in ("one-hot", "hash") or not pa.types.is_string(kind):
                continue
            names = list(dict.fromkeys([*keys, feature.column]))

            def is_no_number(table: ibis.Table, name: str = feature.column) -> Any:
                return table[name].notnull() & table[name].try_cast("float64").isnull()

            rows = rows_where(columns.source, is_no_number, names, self.duckdb, 3)
            raise InvalidInputError(
                f"{columns.where}: feature {feature.name!r}: the column {feature.column!r} has text",
                found=sentences(columns.source, rows, names) or "numbers, written as text",
                expected="numbers",
                remedy="Correct the rows, use the transform one-hot or hash, or list the column under 'text'."
                if rows
                else f"Set its type in graph.yaml: types: {{{feature.column}: float64}}.",
            )

    def _keys_of(self, numbered: Numbered) -> ibis.Table:
        """Return the keys of a type for DuckDB, which finds rows for messages whatever the engine is."""
        kind = pa.string() if numbered.as_text else pa.int64()
        return self.duckdb.table("all_keys", [numbered.keys], pa.schema([(ORIG_ID, pa.int64()), (KEY, kind)]))
