"""Make the files of tables local Parquet files of the columns that are used.

Parquet is read where it is; objects on S3 are downloaded once. Other formats are written as Parquet first, so
that every engine reads the same values, and a row of any table has a file and a number.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.table_files import first_sentence
from partition_ops.errors import InvalidInputError, one_of, some_of
from partition_ops.stages.ingest.engines import DuckDB, literal, parquet, plain_type, quoted
from partition_ops.stages.ingest.find_tables import FoundFile, FoundTable
from partition_ops.stages.ingest.queries import Query, mixed_types, write_batches

TYPES = {  # of graph.yaml, in DuckDB's words
    "text": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
SHOWN_VALUES = 3
DELIMITERS = ",\t;|"
LONGEST_HEADER = 1 << 20  # bytes
SHOWN_BYTES = 16
UNREADABLE = (OSError, EOFError, zlib.error)  # by gzip, too
UNKNOWN = {"VARCHAR", "JSON", "NULL", '"NULL"'}  # how DuckDB describes a column without values


@dataclass(frozen=True)
class Source:
    """A table as Parquet files of one schema.

    Attributes:
        name: The table, for messages.
        paths: The files.
        names: Their names for messages, in the same order.
        schema: The columns that are used, with their types as engines see them.
        rows: Number of rows.
    """

    name: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    schema: pa.Schema
    rows: int

    def name_of(self, path: str) -> str:
        """Return the name of a file for messages."""
        return self.names[[str(one) for one in self.paths].index(path)]


def open_table(
    found: FoundTable,
    columns: Sequence[str],
    keys: Collection[str],
    scratch: Path,
    duckdb: DuckDB,
    where: str,
) -> Source:
    """Make a table Parquet files of one schema.

    Args:
        found: The files.
        columns: Names of the columns that are used.
        keys: Those of them that are keys; in CSV they are text, because ``007`` is not ``7``.
        scratch: An empty folder for files that are written.
        duckdb: Reads CSV and JSON.
        where: What the table is for, for messages.

    Raises:
        InvalidInputError: A file cannot be read, a column is missing, or a column has other types in other
            files or rows.

    Peak memory: that of ``duckdb``.
    """
    stage = _Staging(found, columns, keys, scratch, duckdb, where)
    with _explained(stage):
        paths = {"parquet": stage.parquet, "arrow": stage.arrow, "sql": stage.sql}.get(
            found.format, stage.text
        )()
    names = tuple(file.name for file in found.files)
    schemas = [pq.read_schema(path) for path in paths]
    schema = stage.one_schema(schemas)
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    return Source(found.name, tuple(paths), names, schema, rows)


def text_columns(found: FoundTable, duckdb: DuckDB) -> list[str]:
    """Return the names of the columns of the first file of a table in CSV or JSON.

    Raises:
        InvalidInputError: The file cannot be read.
    """
    stage = _Staging(found, (), (), Path(), duckdb, found.name)
    with _explained(stage):
        return [*stage.describe(found.files[0])]


@contextmanager
def _explained(stage: _Staging) -> Iterator[None]:
    """Replace errors of libraries that cannot read a table."""
    try:
        yield
    except (stage.duckdb.errors, pa.ArrowException, *UNREADABLE) as error:
        if stage.found.format == "csv" and isinstance(error, stage.duckdb.errors):
            with suppress(csv.Error, *UNREADABLE):
                error = stage.broken_line() or error
        raise InvalidInputError(
            f"{stage.about}{stage.found.name} cannot be read",
            found=_first_lines(error),
            remedy="Correct the file, or set 'format', 'delimiter', 'quote' or 'types' of the table in"
            " graph.yaml.",
        ) from error


class _Staging:
    """Writes the files of one table as Parquet."""

    def __init__(
        self,
        found: FoundTable,
        columns: Sequence[str],
        keys: Collection[str],
        scratch: Path,
        duckdb: DuckDB,
        where: str,
    ) -> None:
        self.found = found
        self.columns = columns
        self.keys = keys
        self.scratch = scratch
        self.duckdb = duckdb
        self.where = where
        self.about = "" if where == found.name else f"{where}: "
        self._check_types(found.spec.types)
        of_folders = {name: kind for file in found.files[:1] for name, kind in file.types.items()}
        self.types = {name: kind for name, kind in of_folders.items() if name in columns} | {
            **found.spec.types
        }

    def parquet(self) -> list[Path]:
        """Return the files themselves, or copies if types or columns of folders are asked for."""
        paths = []
        for index, file in enumerate(self.found.files):
            path = file.store.local_copy(file.entry.key)
            have = pq.read_schema(path).names
            self._need([*have, *file.folders], file.name)
            if not self.types and set(self.columns) <= set(have):
                paths.append(path)
                continue
            paths.append(self._copy(index, parquet([path]), file, have))
        return paths

    def text(self) -> list[Path]:
        """Write CSV or JSON lines as Parquet, with one type for each column of all files."""
        described = [self.describe(file) for file in self.found.files]
        for file, types in zip(self.found.files, described, strict=True):
            self._need([*types, *file.folders], file.name)
        chosen = {name: self._type(name, described) for name in self.columns if name in described[0]}
        paths = []
        for index, (file, types) in enumerate(zip(self.found.files, described, strict=True)):
            all_types = {**types, **chosen}
            paths.append(self._copy(index, self._reader(file, all_types), file, list(types)))
        return paths

    def arrow(self) -> list[Path]:
        """Write Arrow IPC files or streams as Parquet."""
        paths = []
        for index, file in enumerate(self.found.files):
            with pa.memory_map(str(file.store.local_copy(file.entry.key))) as stream:
                try:
                    reader = pa.ipc.open_file(stream)
                    batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
                except pa.ArrowInvalid:
                    stream.seek(0)
                    batches = reader = pa.ipc.open_stream(stream)
                self._need([*reader.schema.names, *file.folders], file.name)
                whole = self.scratch / f"arrow{index}.parquet"
                names = [name for name in self.columns if name in reader.schema.names]
                write_batches(whole, (batch.select(names) for batch in batches), reader.schema, names)
            if self.types or len(names) < len(self.columns):
                paths.append(self._copy(index, parquet([whole]), file, names))
            else:
                paths.append(whole)
        return paths

    def sql(self) -> list[Path]:
        """Write the result of a query as Parquet."""
        file = self.found.files[0]
        whole = self.scratch / "query.parquet"
        have = Query(self.found, self.columns, self.types, self.where).write(whole)
        self._need(have, self.found.name)
        return [self._copy(0, parquet([whole]), file, have)] if self.types else [whole]

    def describe(self, file: FoundFile) -> dict[str, str]:
        """Return DuckDB's types of all columns of a CSV or JSON file, from its first rows.

        Raises:
            InvalidInputError: A CSV file is empty.
        """
        if self.found.format == "csv":
            self._header(file)
        rows = self.duckdb.query(f"DESCRIBE SELECT * FROM {self._reader(file, None)}")
        return {str(row[0]): str(row[1]) for row in rows}

    def broken_line(self) -> Exception | None:
        """Return DuckDB's error about the first line of CSV files that has other columns than the header.

        With the types unknown, DuckDB says only that it cannot detect how a file is written.

        Raises:
            InvalidInputError: A line ends with other characters than the first one.
        """
        for file in self.found.files:
            quote = self.found.spec.quote
            quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
            names = next(csv.reader([self._header(file)], delimiter=self._delimiter(file), **quoting))
            columns = ", ".join(f"'{place}': 'VARCHAR'" for place, _ in enumerate(names))
            known = f", auto_detect = false, columns = {{{columns}}}"
            try:
                self.duckdb.query(f"SELECT count(*) FROM {self._csv(file, known)}")
            except self.duckdb.errors as error:
                if "state machine" in str(error):
                    self._check_line_ends(file)
                return error
        return None

    def _check_line_ends(self, file: FoundFile) -> None:
        with _binary(file) as stream:
            end = _line_end(stream.readline())
            for number, line in enumerate(stream, 2):
                if _line_end(line) not in (end, ""):
                    raise InvalidInputError(
                        f"{self.about}{file.name} has lines with different ends",
                        found=f"{end} after line 1, {_line_end(line)} after line {number}",
                        expected="the same characters after every line",
                        remedy="Write the file again with one of them.",
                    )

    def _header(self, file: FoundFile) -> str:
        """Return the first line of a CSV file.

        Raises:
            InvalidInputError: It is missing, or is not text.
        """
        with _binary(file) as stream:
            line = stream.readline(LONGEST_HEADER)
        if not line:
            raise InvalidInputError(
                f"{self.about}{file.name} is empty", expected="a line with the names of its columns"
            )
        try:
            text = getincrementaldecoder("utf-8-sig")().decode(line)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise InvalidInputError(
                f"{self.about}{file.name} is not text in UTF-8",
                found=f"it begins with {line[:SHOWN_BYTES]!r}",
                expected="a line with the names of its columns",
                remedy="Write it again in UTF-8, or set the 'format' of the table in graph.yaml.",
            )
        return text

    def _delimiter(self, file: FoundFile) -> str:
        """Return the delimiter of a CSV file: by default, what its header has most of."""
        if self.found.spec.delimiter or ".tsv" in file.name:
            return self.found.spec.delimiter or "\t"
        return max(DELIMITERS, key=self._header(file).count)

    def _reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        """Return a call of DuckDB that reads a CSV or JSON file; without types, it finds them."""
        columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in (types or {}).items())
        if self.found.format == "csv":
            return self._csv(file, f", types = {{{columns}}}" if types else "")
        given = f", columns = {{{columns}}}" if types else ""
        return f"read_json({_path(file)}, format = 'newline_delimited'{given}{_packed(file)})"

    def _csv(self, file: FoundFile, more: str) -> str:
        """Return a call of DuckDB that reads a CSV file.

        DuckDB does not guess how the file is written: it could skip all lines before a broken one.
        """
        quote = literal(self.found.spec.quote)
        dialect = f"delim = {literal(self._delimiter(file))}, quote = {quote}, escape = {quote}"
        always = "header = true, skip = 0, hive_partitioning = false"
        return f"read_csv({_path(file)}, {always}, {dialect}{_packed(file)}{more})"

    def _type(self, name: str, described: Sequence[Mapping[str, str]]) -> str:
        """Return the type of a column in all files.

        Raises:
            InvalidInputError: The files do not agree.
        """
        if name in self.types:
            return TYPES[self.types[name]]
        if name in self.keys and self.found.format == "csv":
            return "VARCHAR"
        kinds: dict[str, str] = {}  # the first file of each type
        for file, types in zip(self.found.files, described, strict=True):
            kinds.setdefault(types[name], file.name)
        if set(kinds) <= {"BIGINT", "DOUBLE"} and len(kinds) == 2:
            return "DOUBLE"
        for empty in UNKNOWN & kinds.keys() if len(kinds) > 1 else ():
            files = [f for f, types in zip(self.found.files, described, strict=True) if types[name] == empty]
            if len(kinds) > 1 and not any(self._has_values(file, name) for file in files):
                del kinds[empty]
        if len(kinds) > 1:
            said = [(kind, file + self._texts(file, name, kinds)) for kind, file in kinds.items()]
            raise self._mixed(name, said)
        return next(iter(kinds))

    def _texts(self, name: str, column: str, kinds: Mapping[str, str]) -> str:
        """Return, for the file with text, the first values that are none of the other type, as a clause."""
        other = next((kind for kind in kinds if kind != "VARCHAR"), "VARCHAR")
        if kinds.get("VARCHAR") != name or other in UNKNOWN:
            return ""
        file = next(file for file in self.found.files if file.name == name)
        value = quoted(column)
        rows = self.duckdb.query(
            f"SELECT {value} FROM {self._reader(file, None)}"
            f" WHERE {value} IS NOT NULL AND TRY_CAST({value} AS {other}) IS NULL LIMIT {SHOWN_VALUES}"
        )
        return f", such as {', '.join(repr(row[0]) for row in rows)}" if rows else ""

    def _has_values(self, file: FoundFile, name: str) -> bool:
        return bool(self.duckdb.query(f"SELECT count({quoted(name)}) FROM {self._reader(file, None)}")[0][0])

    def _copy(self, index: int, reader: str, file: FoundFile, have: Sequence[str]) -> Path:
        """Write the columns that are used to a Parquet file, with their types and those of folders."""
        path = self.scratch / f"{index}.parquet"
        columns = []
        for name in self.columns:
            value = quoted(name) if name in have else _constant(file.folders[name])
            if name in self.types:
                value = f"CAST({value} AS {TYPES[self.types[name]]})"
            elif name not in have and all((one.folders[name] or "").isdecimal() for one in self.found.files):
                value = f"CAST({value} AS BIGINT)"
            columns.append(f"{value} AS {quoted(name)}")
        target = literal(str(path))
        self.duckdb.query(f"COPY (SELECT {', '.join(columns)} FROM {reader}) TO {target} (FORMAT parquet)")
        return path

    def one_schema(self, schemas: Sequence[pa.Schema]) -> pa.Schema:
        """Return the types of the columns that are used.

        Raises:
            InvalidInputError: The files do not agree on one.
        """
        for name in self.columns:
            kinds: dict[str, str] = {}
            for file, schema in zip(self.found.files, schemas, strict=True):
                kinds.setdefault(str(plain_type(schema.field(name).type)), file.name)
            if len(kinds) > 1:
                raise self._mixed(name, [*kinds.items()])
        return pa.schema([(name, plain_type(schemas[0].field(name).type)) for name in self.columns])

    def _mixed(self, column: str, kinds: Sequence[tuple[str, str]]) -> InvalidInputError:
        return mixed_types(self.where, self.found, column, kinds)

    def _check_types(self, types: Mapping[str, str]) -> None:
        unused = [name for name in types if name not in self.columns]
        if unused:
            raise InvalidInputError(
                f"{self.where}: 'types' names a column of {self.found.name} that is not used",
                found=repr(unused[0]),
                expected=one_of(self.columns),
            )

    def _need(self, have: Sequence[str], file: str) -> None:
        """Check that the columns that are used exist.

        Raises:
            InvalidInputError: One does not.
        """
        missing = [name for name in self.columns if name not in have]
        if missing:
            near = get_close_matches(missing[0], have, n=1)
            raise InvalidInputError(
                f"{self.about}{file} has no column {missing[0]!r}",
                found=f"the columns {some_of([repr(name) for name in have], 20)}",
                remedy=f"Did you mean {near[0]!r}?" if near else "Correct the column in graph.yaml.",
            )


def _constant(value: str | None) -> str:
    return "NULL" if value is None else literal(value)


def _path(file: FoundFile) -> str:
    return literal(str(file.store.local_copy(file.entry.key)))


def _packed(file: FoundFile) -> str:
    return ", compression = 'gzip'" if file.name.endswith(".gz") else ""


def _binary(file: FoundFile) -> gzip.GzipFile | BufferedReader:
    path = file.store.local_copy(file.entry.key)
    return gzip.open(path) if _packed(file) else path.open("rb")


def _line_end(line: bytes) -> str:
    return "CRLF" if line.endswith(b"\r\n") else "LF" if line.endswith(b"\n") else ""


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("Possible", "*", "LINE", "^", "file ="))]
    return first_sentence(error) if len(kept) < 2 else "; ".join(kept[:4])
