"""Queries on PostgreSQL servers, in a transaction that only reads, with a cursor on the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.stages.ingest.table_source import FoundFile, Place, QuerySource
from partition_ops.storage import StoredObject
from partition_ops.system.extras import check_installed

TYPES = {  # by the number that PostgreSQL gives a type
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
SCHEMES = ("postgresql", "postgres")
CONNECT_SECONDS = 30


class PostgresSource(QuerySource):
    name, title, connection = "postgres", "PostgreSQL", "postgresql://user@host/database"

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        """Return the server as a file, if the connection, or the variable that it names, is its URL.

        Raises:
            InvalidInputError: The connection has a password, which would be in records and messages.
        """
        if place.scheme not in (*SCHEMES, None):
            return []
        try:
            url = urlsplit(place.spec.connection)
        except ValueError as error:  # a bracket that is not closed
            raise InvalidInputError(
                f"{place.where}: 'connection' is no URL", found=str(error), expected=f"{cls.connection}"
            ) from error
        user, _, host = url.netloc.rpartition("@")
        if ":" in user or any("password" in name.lower() for name in parse_qs(url.query)):
            raise InvalidInputError(
                f"{place.where}: 'connection' has a password",
                expected=f"{url.scheme}://{user.partition(':')[0]}@{host}{url.path}",
                remedy="Remove it from graph.yaml, and set PGPASSWORD or write it to ~/.pgpass; or name an"
                " environment variable that has the whole URL: connection: $NAME.",
            )
        entry = StoredObject(place.spec.name, 0, "")  # nothing tells whether its rows have changed
        return [FoundFile(place.source, entry, place.spec.connection, {})]

    def write_result(self, file: FoundFile) -> Path:
        """Write the result of the query to a Parquet file.

        Raises:
            InvalidInputError: The query fails, or a column that is used has an unknown type.
            StorageError: The server cannot be reached.
            UsageError: psycopg is not installed, or an environment variable has no URL.
        """
        url = self._url()
        check_installed(f"{self.where}: a query on PostgreSQL", "psycopg")
        import psycopg

        try:
            with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
                connection.read_only = True
                with connection.cursor(name="partition_ops") as cursor:
                    cursor.execute(self.sql)
                    columns = cursor.description or ()
                    self.check_names([one.name for one in columns])
                    return self.write_rows(
                        cursor, pa.schema([(one.name, self._type(one)) for one in columns])
                    )
        except psycopg.OperationalError as error:
            raise StorageError(
                f"{self.where}: the server of {self.spec.name} cannot be used",
                found=_without_secrets(str(error), url),
                remedy="Check the connection. libpq takes a password from PGPASSWORD or from ~/.pgpass.",
            ) from None  # the error may have the password in its arguments
        except psycopg.Error as error:
            raise self.fails(_without_secrets(str(error), url)) from None

    def _url(self) -> str:
        """Return the URL: the connection, or the value of the environment variable that it names."""
        name = self.spec.connection.removeprefix("$")
        if name == self.spec.connection:
            return name
        url = os.environ.get(name, "")
        if urlsplit(url).scheme not in SCHEMES:
            raise UsageError(
                f"{self.where}: the environment variable {name} has no URL of PostgreSQL",
                found="another value" if url else "it is not set",
                expected="postgresql://user:password@host/database",
            )
        return url

    def _type(self, column: Any) -> pa.DataType:
        kind = TYPES.get(column.type_code)
        if kind is None and column.name not in self.used:
            return pa.null()
        if kind is None:
            raise InvalidInputError(
                f"{self.where}: the column {column.name!r} of {self.spec.name} has a type that is not read",
                found=f"the type {column.type_display}",
                expected="numbers, text, booleans, dates, times, or arrays of numbers",
                remedy=f"Cast it in the query, for example {column.name}::text.",
            )
        return kind


def _without_secrets(message: str, url: str) -> str:
    """Return the first lines of an error of libpq without the URL and its password."""
    text = " ".join(message.split()).replace(url, "the URL")
    for part in (urlsplit(url).netloc.rpartition("@")[0].partition(":")[2], urlsplit(url).query):
        for secret in {part, unquote(part)} - {""}:
            text = text.replace(secret, "…")
    return text


SOURCE = PostgresSource
