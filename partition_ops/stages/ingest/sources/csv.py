"""CSV files with a header, and `TextSource`: files whose types DuckDB finds from their values."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from abc import abstractmethod
from codecs import BOM_UTF8, getincrementaldecoder
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from io import BufferedReader
from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import TYPES, literal, path_literal, quoted
from partition_ops.stages.ingest.table_source import FoundFile, TableSource
from partition_ops.storage import StoredObject
from partition_ops.storage.local_store import LocalStore

SHOWN_VALUES = 3
DELIMITERS = ",\t;|"
LONGEST_HEADER = 1 << 20  # bytes
SHOWN_BYTES = 16
SHOWN_TEXT = 60
GZIP = b"\x1f\x8b"
PIECE = 1 << 20
NO_PARQUET = {"HUGEINT": "BIGINT"}  # it would become a fraction, which cannot hold all of its values
UNKNOWN = {"VARCHAR", "JSON", "NULL", '"NULL"'}  # how DuckDB describes a column without values


class TextSource(TableSource):
    """Text with values: a column has one type in all files."""

    value_types = "found from the values"
    errors = (EOFError, zlib.error)  # by gzip

    def prepare(self) -> None:
        """Write files in another encoding again in UTF-8."""
        if self.spec.encoding and self.spec.encoding != "utf-8":
            self.files = [self._recoded(index, file) for index, file in enumerate(self.files)]

    def _recoded(self, index: int, file: FoundFile) -> FoundFile:
        target = LocalStore(self.scratch)
        key = f"recoded{index}"
        decoder = getincrementaldecoder(self.spec.encoding)()
        begin = 0
        with binary(file) as stream, (self.scratch / key).open("w", encoding="utf-8", newline="") as new:
            try:
                for piece in iter(lambda: stream.read(PIECE), b""):
                    new.write(decoder.decode(piece))
                    begin += len(piece)
                new.write(decoder.decode(b"", final=True))
            except UnicodeError as error:
                found = str(error)  # such as a missing byte order mark
                if isinstance(error, UnicodeDecodeError):
                    found = f"{error.object[error.start : error.end]!r} before byte {begin + error.end}"
                raise InvalidInputError(
                    f"{self.about}{file.name} is not text in {self.spec.encoding}",
                    found=found,
                    remedy="Correct 'encoding' of the table in graph.yaml.",
                ) from error
        return replace(file, store=target, entry=StoredObject(key, 0, ""))

    def columns(self, file: FoundFile) -> list[str]:
        return list(self._described[file.name])

    def names(self, file: FoundFile) -> list[str]:
        """Return the columns; DuckDB has added a number to names that differ in case only from others."""
        names = self.columns(file)
        known = {name.lower() for name in names}
        numbered = (re.fullmatch(r"(.*)_\d+", name.lower()) for name in names)
        if not any(one and one[1] in known for one in numbered):
            return names
        written = self.written_names(file)
        several = Counter(name.lower() for name in written)
        twice = [name for name in written if several[name.lower()] > 1]
        if not twice:
            return names
        lost = {name for name in names if name not in written or re.sub(r"(_\d+)+$", "", name) in twice}
        return [*(name for name in names if name not in lost), *twice, *twice, *lost, *lost]

    @abstractmethod
    def written_names(self, file: FoundFile) -> list[str]:
        """Return the names of the columns as they are in the file."""

    def read(self, file: FoundFile, columns: Sequence[str]) -> str:
        return self.reader(file, {**self._described[file.name], **self._types})

    def read_text(self, file: FoundFile, column: str) -> str:
        return self.reader(file, dict.fromkeys(self._described[file.name], "VARCHAR"))

    @abstractmethod
    def reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        """Return an expression of DuckDB that reads a file; without types, it finds them."""

    def check(self, file: FoundFile) -> None:
        """Raise `InvalidInputError` if a file is not text of this kind."""
        if compression(file):
            with file.path.open("rb") as stream:
                begin = stream.read(len(GZIP))
            if begin != GZIP:
                raise InvalidInputError(
                    f"{self.about}{file.name} is not packed with gzip, as its name says",
                    found=f"it begins with {begin!r}",
                    remedy="Remove .gz from its name, or pack it.",
                )
            with gzip.open(file.path) as packed:  # DuckDB does not compare the checksum
                while packed.read(PIECE):
                    pass

    @cached_property
    def _described(self) -> dict[str, dict[str, str]]:
        """DuckDB's types of all columns, from the first rows, by the names of files."""
        found = {}
        for file in self.files:
            self.check(file)
            rows = self.duckdb.query(f"DESCRIBE SELECT * FROM {self.reader(file, None)}")
            found[file.name] = {str(row[0]): NO_PARQUET.get(row[1], str(row[1])) for row in rows}
        return found

    @cached_property
    def _types(self) -> dict[str, str]:
        """The types in all files of the columns that are used."""
        names = [name for name in self.used if name in self._described[self.files[0].name]]
        return {name: self._type(name) for name in names}

    def _type(self, name: str) -> str:
        """Return the type of a column in all files.

        Raises:
            InvalidInputError: The files do not agree.
        """
        if name in self.types:
            kind = self.types[name]
            return "VARCHAR" if kind == "int64" else TYPES[kind]  # it would round a fraction
        if name in self.keys and not self._is_no_text(name):
            return "VARCHAR"
        return self._common_type(name)

    def _is_no_text(self, key: str) -> bool:
        """Return whether a key or a category is a number or a list in all files; in CSV, nothing tells."""
        return False

    def _common_type(self, name: str) -> str:
        kinds: dict[str, FoundFile] = {}  # the first file of each type
        for file in self.files:
            kinds.setdefault(self._described[file.name][name], file)
        if set(kinds) == {"BIGINT", "DOUBLE"}:
            return "DOUBLE"
        for empty in UNKNOWN & kinds.keys():
            files = [file for file in self.files if self._described[file.name][name] == empty]
            if len(kinds) > 1 and not any(self._has_values(file, name) for file in files):
                del kinds[empty]
        if len(kinds) > 1:
            raise self.mixed_types(
                name, [(kind, file.name + self._texts(name, kind, kinds)) for kind, file in kinds.items()]
            )
        return next(iter(kinds))

    def _texts(self, column: str, kind: str, kinds: Mapping[str, FoundFile]) -> str:
        """Return, for the file with text, the first values that are none of the other type, as a clause."""
        other = next((one for one in kinds if one != "VARCHAR"), "VARCHAR")
        if kind != "VARCHAR" or other in UNKNOWN:
            return ""
        value = quoted(column)
        rows = self.duckdb.query(
            f"SELECT {value} FROM {self.reader(kinds[kind], None)}"
            f" WHERE {value} IS NOT NULL AND TRY_CAST({value} AS {other}) IS NULL LIMIT {SHOWN_VALUES}"
        )
        return f", such as {', '.join(repr(row[0]) for row in rows)}" if rows else ""

    def _has_values(self, file: FoundFile, name: str) -> bool:
        return bool(self.duckdb.query(f"SELECT count({quoted(name)}) FROM {self.reader(file, None)}")[0][0])


class CSVSource(TextSource):
    name, title = "csv", "CSV, with a header or with `columns`"
    suffixes = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
    value_types = "found from the values; **keys are text**, because `007` is not `7`"

    def check(self, file: FoundFile) -> None:
        super().check(file)
        self._header(file)
        count, columns = len(self._first_values(file)), self.spec.columns
        if columns and count != len(columns):
            raise InvalidInputError(
                f"{self.about}{file.name} has another number of columns than 'columns' names",
                found=f"{count} in the first line, {self._header(file)[:SHOWN_TEXT]!r}",
                expected=f"{len(columns)}: {', '.join(columns)}",
                remedy="Correct 'columns' or 'delimiter' of the table in graph.yaml.",
            )

    def without_column(self, have: Sequence[str]) -> str:
        return "" if self.spec.columns else ", or name the columns of a file without a header in 'columns'"

    def written_names(self, file: FoundFile) -> list[str]:
        return [name.strip() for name in self._header_names(file)]

    def _header_names(self, file: FoundFile) -> list[str]:
        return [*self.spec.columns] if self.spec.columns else self._first_values(file)

    def _first_values(self, file: FoundFile) -> list[str]:
        quote = self.spec.quote
        quoting: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        header = self._header(file)
        try:
            return next(csv.reader([header], delimiter=self._delimiter(file), **quoting))
        except csv.Error as error:  # a carriage return outside of quotes
            raise InvalidInputError(
                f"{self.about}{file.name}: the first line cannot be read",
                found=f"{header[:SHOWN_TEXT]!r}",
                expected="lines that end with a line feed, perhaps with a carriage return before it",
                remedy="Write the file again with such line ends.",
            ) from error

    def reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        return self._reader(file, f", types = {struct(types)}" if types else "")

    def _reader(self, file: FoundFile, more: str) -> str:
        """Return a call of DuckDB that reads a file.

        DuckDB does not guess how the file is written: it could skip all lines before a broken one.
        """
        quote = literal(self.spec.quote)
        dialect = f"delim = {literal(self._delimiter(file))}, quote = {quote}, escape = {quote}"
        always = "header = true, skip = 0, hive_partitioning = false"
        if self.spec.columns:
            names = ", ".join(map(literal, self.spec.columns))
            always = always.replace("true", f"false, names = [{names}]" if "columns" not in more else "false")
        return f"read_csv({path_literal(file.path)}, {always}, {dialect}{compression(file)}{more})"

    def _header(self, file: FoundFile) -> str:
        """Return the first line.

        Raises:
            InvalidInputError: It is missing, or is not text.
        """
        with binary(file) as stream:
            line = stream.readline(LONGEST_HEADER)
        if not line.removeprefix(BOM_UTF8).strip():  # DuckDB would take the names after it for values
            raise InvalidInputError(
                f"{self.about}{file.name} {'begins with an empty line' if line else 'is empty'}",
                expected="a line with the names of its columns",
                remedy="Remove the empty line." if line else "Write the line, or leave the file out.",
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
        """Return the delimiter: by default, what the header has most of."""
        if self.spec.delimiter or ".tsv" in file.name:
            return self.spec.delimiter or "\t"
        return max(DELIMITERS, key=self._header(file).count)

    def explain(self, error: Exception) -> Exception:
        """Return DuckDB's error about the first line of a file that has other columns than the header.

        With the types unknown, DuckDB says only that it cannot detect how a file is written.

        Raises:
            InvalidInputError: A line ends with other characters than the first one.
        """
        if isinstance(error, self.duckdb.errors):
            with suppress(csv.Error, OSError, *self.errors):
                return next(filter(None, map(self._broken_line, self.files)), error)
        return error

    def _broken_line(self, file: FoundFile) -> Exception | None:
        names = self._header_names(file)
        columns = ", ".join(f"'{place}': 'VARCHAR'" for place, _ in enumerate(names))
        known = f", auto_detect = false, columns = {{{columns}}}"
        try:
            self.duckdb.query(f"SELECT count(*) FROM {self._reader(file, known)}")
        except self.duckdb.errors as error:
            if "state machine" in str(error):
                self._check_line_ends(file)
            return error
        return None

    def _check_line_ends(self, file: FoundFile) -> None:
        with binary(file) as stream:
            end = _line_end(stream.readline())
            for number, line in enumerate(stream, 2):
                if _line_end(line) not in (end, ""):
                    raise InvalidInputError(
                        f"{self.about}{file.name} has lines with different ends",
                        found=f"{end} after line 1, {_line_end(line)} after line {number}",
                        expected="the same characters after every line",
                        remedy="Write the file again with one of them.",
                    )


def struct(types: Mapping[str, str]) -> str:
    """Return types by column in DuckDB's SQL."""
    return f"{{{', '.join(f'{literal(name)}: {literal(kind)}' for name, kind in types.items())}}}"


def compression(file: FoundFile) -> str:
    """Return the argument of DuckDB's functions for a file that gzip has packed; empty for others."""
    return ", compression = 'gzip'" if file.entry.key.endswith(".gz") else ""


def binary(file: FoundFile) -> gzip.GzipFile | BufferedReader:
    return gzip.open(file.path) if compression(file) else file.path.open("rb")


def _line_end(line: bytes) -> str:
    return "CRLF" if line.endswith(b"\r\n") else "LF" if line.endswith(b"\n") else ""


SOURCE = CSVSource
