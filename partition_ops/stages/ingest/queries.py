"""Results of SQL queries as Parquet files: on files of DuckDB and SQLite, and on PostgreSQL servers.

A query can read its database and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.stages.ingest.engines import quoted
from partition_ops.stages.ingest.find_tables import FoundTable

SQLITE = b"SQLite format 3\0"
SQLITE_TYPES = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
POSTGRES_TYPES = {  # by the number that PostgreSQL gives a type
    **dict.fromkeys((20, 21, 23, 26), pa.int64()),
    **dict.fromkeys((700, 701, 1700), pa.float64()),
    **dict.fromkeys((18, 19, 25, 1042, 1043, 2950), pa.string()),
    16: pa.bool_(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
    **dict.fromkeys((1005, 1007, 1016), pa.list_(pa.int64())),
    **dict.fromkeys((1021, 1022), pa.list_(pa.float64())),
}
WORDS = {  # of DuckDB, Arrow and SQLite for types, in those of graph.yaml
    **dict.fromkeys(("VARCHAR", "string"), "text"),
    **dict.fromkeys(("BIGINT", "integer"), "int64"),
    **dict.fromkeys(("DOUBLE", "double", "real"), "float64"),
    **dict.fromkeys(("BOOLEAN",), "bool"),
    **dict.fromkeys(("DATE", "date32[day]"), "date"),
    **dict.fromkeys(("TIMESTAMP", "timestamp[us]"), "timestamp"),
}
CONNECT_SECONDS = 30
ROWS = 1 << 13  # in memory as Python's values


@dataclass(frozen=True)
class Query:
    """A query whose result becomes a table.

    Attributes:
        found: The table of ``graph.yaml``.
        columns: Names of the columns that are used.
        types: Types of columns in the words of ``graph.yaml``.
        where: What the table is for, for messages.
    """

    found: FoundTable
    columns: Collection[str]
    types: Mapping[str, str]
    where: str

    def write(self, target: Path) -> list[str]:
        """Write the result, and return the names of its columns.

        Raises:
            InvalidInputError: The query fails, or a column has values of several types.
            StorageError: The server cannot be reached.
            UsageError: psycopg is not installed.
        """
        if self.found.spec.connection:
            return self._postgres(target)
        file = self.found.files[0]
        database = file.store.local_copy(file.entry.key)
        with database.open("rb") as stream:
            is_sqlite = stream.read(len(SQLITE)) == SQLITE
        return (self._sqlite if is_sqlite else self._duckdb)(database, target)

    def _duckdb(self, database: Path, target: Path) -> list[str]:
        import duckdb

        config: dict[str, Any] = {"enable_external_access": False, "autoload_known_extensions": False}
        with closing(duckdb.connect(str(database), read_only=True, config=config)) as connection:
            reader = connection.sql(self.found.spec.sql).to_arrow_reader(ROWS)
            have = list(reader.schema.names)
            write_batches(target, iter(reader), reader.schema, have)
        return have

    def _sqlite(self, database: Path, target: Path) -> list[str]:
        import sqlite3

        query = self.found.spec.sql.rstrip().rstrip(";")
        allowed = {
            sqlite3.SQLITE_SELECT,
            sqlite3.SQLITE_READ,
            sqlite3.SQLITE_FUNCTION,
            sqlite3.SQLITE_RECURSIVE,
        }
        uri = f"{database.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.set_authorizer(
                    lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
                )
                cursor = connection.execute(query)
                have = [column[0] for column in cursor.description]
                schema = pa.schema([(name, self._sqlite_type(connection, query, name)) for name in have])
                write_batches(target, _rows(cursor, schema), schema, have)
        except sqlite3.Error as error:
            raise self._fails(str(error)) from error
        return have

    def _sqlite_type(self, connection: Any, query: str, name: str) -> pa.DataType:
        """Return the type of all values of a column: SQLite has one for each value."""
        column = quoted(name)
        kinds = {
            kind
            for (kind,) in connection.execute(f"SELECT DISTINCT typeof({column}) FROM ({query})")
            if kind != "null"
        }
        if self.types.get(name) == "text" and "blob" not in kinds:
            return pa.string()
        if kinds <= {"integer", "real"} and kinds:
            return SQLITE_TYPES["real" if "real" in kinds else "integer"]
        if len(kinds) > 1 or "blob" in kinds:
            if name not in self.columns:
                return pa.null()
            raise mixed_types(
                self.where, self.found, name, [(kind, self.found.name) for kind in sorted(kinds)]
            )
        return SQLITE_TYPES[kinds.pop()] if kinds else pa.string()

    def _postgres(self, target: Path) -> list[str]:
        """Run the query in a transaction that only reads, with a cursor on the server."""
        url = _url_of(self.found.spec.connection, self.where)
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                f"{self.where}: a query on PostgreSQL needs psycopg, which is not installed",
                remedy="Install it: pip install 'partition-ops[postgres]'.",
            ) from error
        try:
            with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
                connection.read_only = True
                with connection.cursor(name="partition_ops") as cursor:
                    cursor.execute(self.found.spec.sql.rstrip().rstrip(";"))
                    described = cursor.description or ()
                    have = [column.name for column in described]
                    schema = pa.schema([(one.name, self._postgres_type(one)) for one in described])
                    write_batches(target, _rows(cursor, schema), schema, have)
        except psycopg.OperationalError as error:
            raise StorageError(
                f"{self.where}: the server of {self.found.name} cannot be used",
                found=_without_secrets(str(error), url),
                remedy="Check the connection. libpq takes a password from PGPASSWORD or from ~/.pgpass.",
            ) from None  # the error may have the password in its arguments
        except psycopg.Error as error:
            raise self._fails(_without_secrets(str(error), url)) from None
        return have

    def _postgres_type(self, column: Any) -> pa.DataType:
        kind = POSTGRES_TYPES.get(column.type_code)
        if kind is None and column.name not in self.columns:
            return pa.null()
        if kind is None:
            raise InvalidInputError(
                f"{self.where}: the column {column.name!r} of {self.found.name} has a type that is not read",
                found=f"the type {column.type_display}",
                expected="numbers, text, booleans, dates, times, or arrays of numbers",
                remedy=f"Cast it in the query, for example {column.name}::text.",
            )
        return kind

    def _fails(self, found: str) -> InvalidInputError:
        return InvalidInputError(f"{self.where}: {self.found.name} fails", found=found, expected="a SELECT")


def mixed_types(
    where: str, table: FoundTable, column: str, kinds: Sequence[tuple[str, str]]
) -> InvalidInputError:
    """Return the error about a column with values of several types, each with the first file that has it."""
    return InvalidInputError(
        f"{where}: the column {column!r} of {table.name} has values of several types",
        found=[f"{WORDS.get(kind, kind)} in {name}" for kind, name in kinds[:5]],
        expected="one type",
        remedy=f"Correct the table, or set the type in graph.yaml: types: {{{column}: text}}.",
    )


def write_batches(
    path: Path, batches: Iterator[pa.RecordBatch], schema: pa.Schema, names: Sequence[str]
) -> None:
    """Write columns of batches to a Parquet file."""
    kept = pa.schema([(name, schema.field(name).type) for name in names])
    with pq.ParquetWriter(path, kept) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).cast(kept))


def _rows(cursor: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(ROWS):
        columns = zip(zip(*rows, strict=True), schema, strict=True)
        yield pa.RecordBatch.from_arrays([_array(values, one.type) for values, one in columns], schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    convert = str if pa.types.is_string(kind) else float if pa.types.is_float64(kind) else None
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, kind)


def _url_of(connection: str, where: str) -> str:
    """Return the URL of a connection: itself, or the value of the environment variable that it names."""
    if not connection.startswith("$"):
        return connection
    url = os.environ.get(connection[1:], "")
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{where}: the environment variable {connection[1:]} has no URL of PostgreSQL",
            found="another value" if url else "it is not set",
            expected="postgresql://user:password@host/database",
        )
    return url


def _without_secrets(message: str, url: str) -> str:
    """Return the first lines of an error of libpq without the URL and its password."""
    text = " ".join(message.split()).replace(url, "the URL")
    for part in (urlsplit(url).netloc.rpartition("@")[0].partition(":")[2], urlsplit(url).query):
        for secret in {part, unquote(part)} - {""}:
            text = text.replace(secret, "…")
    return text
