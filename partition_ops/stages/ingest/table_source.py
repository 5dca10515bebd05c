"""`TableSource`: how a kind of table is found and read. `Place`: where ``graph.yaml`` says that a table is.

A kind is a class in a file of ``sources/``, or an entry point of the group ``partition_ops.sources``.
"""

from __future__ import annotations

import os
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import DuckDB, parquet
from partition_ops.stages.ingest.graph_types import TableFile
from partition_ops.stages.ingest.patterns import folder_of, is_pattern, matches
from partition_ops.storage import Store, StoredObject

OpenRoot = Callable[[str], Store]
ROWS = 1 << 13  # in memory as Python's values
WORDS = {  # of DuckDB, Arrow and SQLite for types, in those of graph.yaml
    **dict.fromkeys(("VARCHAR", "string"), "text"),
    **dict.fromkeys(("BIGINT", "integer"), "int64"),
    **dict.fromkeys(("DOUBLE", "double", "real"), "float64"),
    **dict.fromkeys(("BOOLEAN",), "bool"),
    **dict.fromkeys(("DATE", "date32[day]"), "date"),
    **dict.fromkeys(("TIMESTAMP", "timestamp[us]"), "timestamp"),
}
SQL_TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<space>\s+)|(?P<end>;)"
    r"|'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|`[^`]*`?|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)|.",
    re.DOTALL,
)


@dataclass(frozen=True)
class FoundFile:
    """A file of a table, where it is stored."""

    store: Store  # its root
    entry: StoredObject  # its key below the root, size and tag
    name: str  # as messages name it
    # columns in the names of folders, such as ``year=2024``, or in the log of a Delta table
    folders: Mapping[str, str | None]
    types: Mapping[str, str] = field(default_factory=dict)  # types of these columns, if they are known

    @property
    def identity(self) -> StoredObject:
        """The file for the record of a task, with its URI as the key."""
        return StoredObject(self.store.uri_of(self.entry.key), self.entry.size, self.entry.tag)

    @property
    def path(self) -> Path:
        """The file on the local disk; an object on S3 is downloaded once."""
        return self.store.local_copy(self.entry.key)


@dataclass(frozen=True)
class Place:
    """What ``graph.yaml`` says about where a table, or a part of it, is."""

    spec: TableFile  # the table
    source: Store  # folder of ``graph.yaml``
    store: Store  # root of the path; ``source`` for a connection
    pattern: str  # a path, a pattern or a folder below the root; empty for the root itself
    where: str  # what the table is for, for messages

    @classmethod
    def of(cls, path: str, spec: TableFile, source: Store, open_root: OpenRoot, where: str) -> Place:
        """Return the place of a path or pattern."""
        if "://" not in path and not path.startswith("/"):
            plain = posixpath.normpath(path) + ("/" if path.endswith("/") else "")
            above = re.match(r"(\.\.(/|$))*", plain)
            levels = above[0].count("..") if above else 0
            store = open_root(source.above(levels).uri) if levels else source
            plain = plain[above.end() :] if above else plain
            return cls(spec, source, store, "" if plain in (".", "./") else plain, where)
        root = folder_of(path).removesuffix("/")
        if root.endswith(":/"):  # s3://bucket
            return cls(spec, source, open_root(path), "", where)
        return cls(spec, source, open_root(root or "/"), path[len(root) + 1 :], where)

    @cached_property
    def file(self) -> StoredObject | None:
        """The object that the path names; None if it names a folder or is a pattern."""
        plain = self.pattern and not self.pattern.endswith("/") and not is_pattern(self.pattern)
        return self.store.stat(self.pattern) if plain else None

    @cached_property
    def scheme(self) -> str | None:
        """The scheme of the URL of a server, or of the one in the environment variable that it names.

        None if this variable is not set or empty, so that the server may be of any kind.
        """
        url: str | None = self.spec.connection
        if url and re.fullmatch(r"\$[A-Za-z_]\w*", url):
            url = os.environ.get(url[1:]) or None
        return url and url.partition("://")[0].lower()

    @cached_property
    def folder(self) -> str | None:
        """The folder that the path names: ``""`` or a key that ends with ``/``; None otherwise."""
        if self.spec.connection or is_pattern(self.pattern) or self.file is not None:
            return None
        return f"{self.pattern.rstrip('/')}/" if self.pattern else ""

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with a prefix in the folder that the path names."""
        if self.folder is not None:
            yield from (entry.key for entry in self.store.list(self.folder + prefix))

    @cached_property
    def files(self) -> list[FoundFile]:
        """The file, or those in the folder or of the pattern, in the order of their keys; not hidden ones."""
        if self.file is not None:
            return [self.found(self.file)]
        pattern = self.pattern if self.folder is None else f"{self.folder}**"
        prefix = folder_of(pattern)
        entries = {
            entry.key: entry
            for entry in self.store.list(prefix)
            if not re.search(r"(^|/)[._]", entry.key.removeprefix(prefix))
        }
        return [self.found(entries[key]) for key in matches(pattern, entries, self.where)]

    def found(self, entry: StoredObject) -> FoundFile:
        """Return an object below the root as a file, with columns from the names of its folders."""
        name = entry.key if self.store is self.source else f"{self.store.uri}/{entry.key}"
        parts = [part.partition("=") for part in entry.key.split("/")[:-1]]
        folders = {name: value for name, equals, value in parts if equals and name}
        return FoundFile(self.store, entry, name, folders)


@dataclass
class TableSource(ABC):
    """A kind of table; an instance reads one table.

    Class attributes:
        name: The kind, which a table of files can have as its ``format`` in ``graph.yaml``.
        title: The same for readers.
        suffixes: How the names of its files end.
        value_types: Which types the columns have, for readers.
        mark: How keys in a folder begin that is one table of this kind.
        not_inferred: Why ``--infer`` leaves its files out; empty if it proposes tables of them.
        connection: An example of the URL of a server; empty for files.
        magic: Of a database file, where its kind is written, and how.
        database_suffixes: How the names of database files end, for ``--infer``.
        list_tables: The query that returns the tables of a database file as ``name``, each with its schema as
            ``place``, or ``main`` if queries do not need that.
        errors: What its library raises if it cannot read a file, beside DuckDB's and Arrow's errors.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    value_types: ClassVar[str] = "those of the file"
    mark: ClassVar[str] = ""
    not_inferred: ClassVar[str] = ""
    connection: ClassVar[str] = ""
    magic: ClassVar[tuple[int, bytes]] = (0, b"")
    database_suffixes: ClassVar[tuple[str, ...]] = ()
    list_tables: ClassVar[str] = ""
    errors: ClassVar[tuple[type[Exception], ...]] = ()

    spec: TableFile  # the table in ``graph.yaml``
    files: Sequence[FoundFile]  # its files, as `find` has returned them
    where: str  # what the table is for, for messages
    duckdb: DuckDB  # reads files for kinds without a reader of their own
    scratch: Path  # folder for files that are written
    used: Sequence[str] = ()  # columns that are used
    keys: Collection[str] = ()  # those of them that are keys
    # types of columns in the words of ``graph.yaml``. They are set later, unless the kind does it
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        """Return the files of this kind in a place, without reading rows; none if it has another kind.

        Raises:
            InvalidInputError: The table is of this kind, but cannot be used.
        """
        named = place.spec.format
        if place.spec.sql or not cls.suffixes or named not in (None, cls.name):
            return []
        return [file for file in place.files if named or file.name.lower().endswith(cls.suffixes)]

    @classmethod
    def is_database(cls, store: Store, entry: StoredObject) -> bool:
        """Return whether a file is a database of this kind."""
        at, magic = cls.magic
        end = at + len(magic)
        return bool(magic) and entry.size >= end and store.read_range(entry.key, at, end) == magic

    @abstractmethod
    def columns(self, file: FoundFile) -> list[str]:
        """Return the names of the columns of a file."""

    def names(self, file: FoundFile) -> list[str]:
        """Return `columns` as they are written in the file, also those of which the library changes the name.

        A name is there twice if two columns have it, or if the reader takes one for the other.
        """
        return self.columns(file)

    @abstractmethod
    def read(self, file: FoundFile, columns: Sequence[str]) -> Path | str:
        """Return a Parquet file with some columns of a file, or an expression of DuckDB that reads them."""

    def read_text(self, file: FoundFile, column: str) -> str:
        """Return an expression of DuckDB that reads a column, if possible as it is written in the file."""
        read = self.read(file, [column])
        return parquet([read]) if isinstance(read, Path) else read

    def prepare(self) -> None:  # noqa: B027 - most kinds read files as they are
        """Do what a kind does before anything is read."""

    def without_column(self, have: Sequence[str]) -> str:
        """Return what else may be wrong if a column is missing, for the end of a sentence."""
        return ""

    def explain(self, error: Exception) -> Exception:
        """Return a more exact error of the library for one that it has raised, if there is one."""
        return error

    @property
    def about(self) -> str:
        """What the table is for, as the beginning of a message that names the table."""
        return "" if self.where == self.spec.name else f"{self.where}: "

    def write_parquet(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], columns: Sequence[str]
    ) -> Path:
        """Write columns of batches to a new Parquet file, and return it."""
        path = self.scratch / f"read{len([*self.scratch.glob('read*')])}.parquet"
        kept = pa.schema([(name, schema.field(name).type) for name in columns])
        with pq.ParquetWriter(path, kept) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]).select(columns).cast(kept))
        return path

    def mixed_types(self, column: str, kinds: Sequence[tuple[str, str]]) -> InvalidInputError:
        """Return the error about a column of several types, each with the first file that has it."""
        return InvalidInputError(
            f"{self.where}: the column {column!r} of {self.spec.name} has values of several types",
            found=[f"{WORDS.get(kind, kind)} in {name}" for kind, name in kinds[:5]],
            expected="one type",
            remedy=f"Correct the table, or set the type in graph.yaml: types: {{{column}:"
            f" {_common_type(WORDS.get(kind, kind) for kind, _ in kinds)}}}.",
        )


def _common_type(kinds: Iterable[str]) -> str:
    """Return the type of graph.yaml that has the values of several types."""
    names = {*kinds}
    if all(re.fullmatch(r"u?int\d+", name) for name in names):
        return "int64"
    return "float64" if all(re.fullmatch(r"u?int\d+|.*float\d*|double", name) for name in names) else "text"


class QuerySource(TableSource):
    """A kind of database. The result of the query is written once, with all of its columns."""

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        """Return the database file, if it is of this kind."""
        files = place.files if place.spec.database else []
        return [file for file in files if cls.is_database(file.store, file.entry)]

    def columns(self, file: FoundFile) -> list[str]:
        return list(pq.read_schema(self._result).names)

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        return self._result

    @cached_property
    def _result(self) -> Path:
        return self.write_result(self.files[0])

    def check_names(self, names: Sequence[str]) -> None:
        """Reject a query whose result has a column twice."""
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidInputError(
                f"{self.where}: {self.spec.name} returns the column {twice!r} twice",
                expected="columns with names of their own",
                remedy="Give one of them another name in the query, with AS.",
            )

    @abstractmethod
    def write_result(self, file: FoundFile) -> Path:
        """Write the result of the query to a Parquet file, and return it.

        Raises:
            InvalidInputError: The query fails, or a column has values of several types.
        """

    @property
    def sql(self) -> str:
        return one_statement(self.spec.sql, self.where)

    def write_reader(self, reader: pa.RecordBatchReader) -> Path:
        """Write all rows of a result."""
        self.check_names(reader.schema.names)
        return self.write_parquet(reader.schema, reader, reader.schema.names)

    def write_rows(self, cursor: Any, schema: pa.Schema) -> Path:
        """Write all rows of a cursor."""
        return self.write_parquet(schema, _batches(cursor, schema), schema.names)

    def fails(self, found: str) -> InvalidInputError:
        """Return the error about a query that the database rejects."""
        return InvalidInputError(f"{self.where}: {self.spec.name} fails", found=found, expected="a SELECT")


def _batches(cursor: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(ROWS):
        columns = zip(zip(*rows, strict=True), schema, strict=True)
        yield pa.RecordBatch.from_arrays(
            [array_of(values, one.type) for values, one in columns], schema=schema
        )


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Python's values as an array; whatever should be text or float64 is converted."""
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    convert = str if pa.types.is_string(kind) else float if pa.types.is_float64(kind) else None
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, kind)


def one_statement(sql: str, where: str) -> str:
    """Return a query without semicolons, comments and spaces at its end.

    Raises:
        InvalidInputError: There is no statement, or there are several.
    """
    end, ended = 0, False
    for token in SQL_TOKENS.finditer(sql):
        if token["comment"] or token["space"]:
            continue
        if token["end"]:
            ended = end > 0
            continue
        if ended:
            raise InvalidInputError(
                f"{where}: 'sql' has several statements",
                found=f"after the first one, {sql[token.start() :][:40]!r}",
                expected="one SELECT",
            )
        end = token.end()
    if not end:
        raise InvalidInputError(f"{where}: 'sql' has no statement", found=repr(sql[:40]), expected="a SELECT")
    return sql[:end]
