"""Queries on SQLite files, which can read their database and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from partition_ops.stages.ingest.engines import quoted
from partition_ops.stages.ingest.table_source import FoundFile, QuerySource

TYPES = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


class SQLiteSource(QuerySource):
    name, title, magic = "sqlite", "SQLite", (0, b"SQLite format 3\0")
    database_suffixes = (".db", ".sqlite", ".sqlite3")
    list_tables = (
        "SELECT 'main' AS place, name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite%'"
    )

    def write_result(self, file: FoundFile) -> Path:
        uri = f"{file.path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.set_authorizer(
                    lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY
                )
                cursor = connection.execute(self.sql)
                names = [column[0] for column in cursor.description or ()]
                self.check_names(names)
                return self.write_rows(cursor, pa.schema([(n, self._type(connection, n)) for n in names]))
        except sqlite3.Error as error:
            raise self.fails(str(error)) from error

    def _type(self, connection: sqlite3.Connection, name: str) -> pa.DataType:
        """Return the type of all values of a column: SQLite has one for each value."""
        rows = connection.execute(f"SELECT DISTINCT typeof({quoted(name)}) FROM ({self.sql})")
        kinds = {kind for (kind,) in rows} - {"null"}
        if self.types.get(name) == "text" and "blob" not in kinds:
            return pa.string()
        if kinds <= {"integer", "real"} and kinds:
            return TYPES["real" if "real" in kinds else "integer"]
        if len(kinds) > 1 or "blob" in kinds:
            if name not in self.used:
                return pa.null()
            raise self.mixed_types(name, [(kind, self.spec.name) for kind in sorted(kinds)])
        return TYPES[kinds.pop()] if kinds else pa.string()


SOURCE = SQLiteSource
