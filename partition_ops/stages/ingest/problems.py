"""What is wrong with tables, in their words: `Problem`, and the rows where it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis

from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.engines import DuckDB, ibis_types, parquet, quoted
from partition_ops.stages.ingest.tables import ParquetTable

SHOWN = 10
LONGEST = 60  # characters of a value in a message
FILE, ROW = "file name", "row number"  # columns beside those of a table


@dataclass(frozen=True)
class Problem:
    """A kind of finding in a table.

    Attributes:
        check: As in ``on_defect`` of graph.yaml.
        about: The node type, or the edge type as ``src:rel:dst``.
        sentence: What was found, with its count.
        count: Number of rows or keys.
        action: ``fail``, ``drop``, ``add`` or ``warn``.
        examples: The first of them, as sentences.
        remedy: What a user can do.
    """

    check: str
    about: str
    sentence: str
    count: int
    action: str
    examples: Sequence[str]
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "about": self.about,
            "sentence": self.sentence,
            "count": self.count,
            "action": self.action,
            "examples": list(self.examples),
        }


class RejectedTablesError(InvalidInputError):
    """Tables have findings whose action is ``fail``.

    Attributes:
        counts: ``graph_name``, and ``num_nodes`` and ``num_edges`` by type, as far as tables have them.
        problems: All findings.
    """

    counts: Mapping[str, Any]
    problems: Sequence[Problem]

    def findings(self) -> list[dict[str, Any]]:
        """Return all findings as JSON."""
        return [problem.to_json() for problem in self.problems]


def reject(problems: Sequence[Problem], where: str, counts: Mapping[str, Any]) -> None:
    """Raise the error of all problems whose action is ``fail``, if there are any.

    Raises:
        RejectedTablesError: There are some; the message names each with its first rows.
    """
    fatal = [problem for problem in problems if problem.action == "fail"]
    if not fatal:
        return
    found = [f"{one.sentence}: {some_of([*one.examples], SHOWN)}" for one in fatal]
    error = RejectedTablesError(
        f"{where}: the tables are not a graph",
        found=found,
        remedy="\n".join(dict.fromkeys(one.remedy for one in fatal if one.remedy)),
    )
    error.counts, error.problems = counts, problems
    raise error


def rows_where(
    source: ParquetTable,
    condition: ibis.Deferred | Any,
    columns: Sequence[str],
    duckdb: DuckDB,
    limit: int = SHOWN,
) -> list[dict[str, Any]]:
    """Return the first rows of a table that fulfil a condition, with `FILE` and `ROW` (from 0).

    Args:
        source: The table.
        condition: Takes the table as an Ibis expression, and returns a condition or another table.
        columns: Columns to return.
        duckdb: Reads the files.
        limit: Most rows.
    """
    name = "located"
    duckdb.connection.execute(
        f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT * EXCLUDE (filename, file_row_number),"
        f" filename AS {quoted(FILE)}, file_row_number AS {quoted(ROW)}"
        f" FROM {parquet(source.paths, ', filename = true, file_row_number = true')}"
    )
    schema = {**ibis_types(source.schema), FILE: "string", ROW: "int64"}
    table = ibis.table(schema, name=name)
    chosen = table.filter(condition(table)).select(*dict.fromkeys(columns), FILE, ROW)
    return duckdb.rows(chosen.order_by(FILE, ROW).limit(limit))


def sentences(source: ParquetTable, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return a sentence for each row of `rows_where`: values of columns, file and row."""
    return [
        f"{', '.join(f'{name} {shown(row[name])}' for name in columns)}"
        f" in {source.name_of(row[FILE])}, row {row[ROW]}"
        for row in rows
    ]


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
