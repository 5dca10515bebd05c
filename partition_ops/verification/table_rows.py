"""Read the rows of tables again, by code that shares nothing with the readers of ``ingest``.

Values are Python's: numbers, text, dates and lists as the file has them, and text in CSV.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import posixpath
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.ingest.graph_types import TableFile
from partition_ops.storage import Store
from partition_ops.storage.uris import split_uri
from partition_ops.system.extras import check_installed

Row = tuple[Any, ...]
BATCH = 1 << 14  # rows
SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class TableRows:
    """The rows of a table."""

    spec: TableFile  # the table in ``graph.yaml``
    source: Store  # folder of ``graph.yaml``
    opened: Callable[[str], Store]  # opens other folders

    def check_kind(self) -> None:
        """Raise `UsageError` if this kind of table cannot be read again."""
        for store, key in self._found():
            self._reader(store.local_copy(key), key)

    def _found(self) -> list[tuple[Store, str]]:
        if self.spec.sql and not self.spec.connection and not self.spec.database:
            raise _not_read(self.spec.name, "a query on files")
        if self.spec.connection:
            raise _not_read(self.spec.name, "a query on a server, whose rows may have changed")
        paths = [self.spec.database] if self.spec.sql else self.spec.paths
        files = [found for path in paths for found in self._files(path)]
        if not files:
            raise InvalidInputError(
                f"There is no table {self.spec.name}", found=f"nothing in {self.source.uri}"
            )
        return files

    def read(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the values of some columns of all rows.

        Raises:
            UsageError: This kind of table cannot be read again.
            InvalidInputError: There is no such file or column.
        """
        files = self._found()
        numbers = {
            name for name in columns if all(_folders(key).get(name, "x").isdecimal() for _, key in files)
        }
        for store, key in files:
            folders = {name: int(text) if name in numbers else text for name, text in _folders(key).items()}
            yield from self._rows(store.local_copy(key), key, columns, folders)

    def _files(self, path: str) -> Iterator[tuple[Store, str]]:
        """Yield the files that a path, a folder or a pattern names."""
        store, place = self.source, posixpath.normpath(path) if path else ""
        if "://" in path or path.startswith("/"):
            fixed = path
            while any(letter in fixed for letter in "*?["):
                fixed = split_uri(fixed)[0]
            root, _ = split_uri(fixed.rstrip("/")) if fixed == path else (fixed, "")
            store, place = self.opened(root), path.removeprefix(root).strip("/")
        while place == ".." or place.startswith("../"):
            store, place = self.opened(store.above(1).uri), place[3:]
        place = "" if place == "." else place
        wanted = place.split("/") if place else []
        keys = [entry.key for entry in store.list()]
        if f"{place}/_delta_log".lstrip("/") in {posixpath.dirname(key) for key in keys}:
            raise _not_read(path, "a Delta table")
        if place in keys:
            yield store, place
            return
        folder = [key for key in keys if key.startswith(f"{place}/" if place else "")]
        for key in folder or keys:
            names = key.split("/")
            fits = bool(folder) or _fits(names, wanted)
            if fits and not any(name[0] in "._" and name not in wanted for name in names):
                yield store, key

    def _rows(
        self, path: Path, key: str, columns: Sequence[str], folders: Mapping[str, Any]
    ) -> Iterator[Row]:
        own = [name for name in columns if name not in folders] if folders else [*columns]
        for row in self._reader(path, key)(path, own):
            values = dict(zip(own, row, strict=True))
            yield tuple(values[name] if name in values else folders[name] for name in columns)

    def _reader(self, path: Path, key: str) -> Callable[[Path, Sequence[str]], Iterator[Row]]:
        if self.spec.sql:
            with path.open("rb") as stream:
                return self._sqlite if stream.read(len(SQLITE)) == SQLITE else self._duckdb
        name = key.lower().removesuffix(".gz")
        kinds: dict[str, tuple[str, Callable[[Path, Sequence[str]], Iterator[Row]]]] = {
            "parquet": (".parquet .pq", _parquet),
            "csv": (".csv .tsv .txt", self._csv),
            "json": (".jsonl .ndjson .json", self._json),
            "arrow": (".arrow .feather .ipc .arrows", _arrow),
            "avro": (".avro", _avro),
            "npy": (".npy", _npy),
            "hdf5": (".h5 .hdf5", _hdf5),
        }
        for kind, (suffixes, reader) in kinds.items():
            if kind == self.spec.format or (
                self.spec.format is None and name.endswith(tuple(suffixes.split()))
            ):
                return reader
        raise _not_read(key, f"the format {self.spec.format or 'of its name'}")

    def _csv(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        with _text(path, encoding=self.spec.encoding) as stream:
            first = stream.readline()
            stream.seek(0)
            quote = self.spec.quote
            quoting: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
            delimiter = self.spec.delimiter or (
                "\t" if ".tsv" in path.name else max(",\t;|", key=first.count)
            )
            rows = _unlimited(csv.reader(stream, delimiter=delimiter, strict=True, **quoting))
            header = [*self.spec.columns] or next(rows)
            places = _places(header, columns, path)
            for row in rows:
                if row or len(header) == 1:
                    row = row or [""]
                    yield tuple(row[place] or None for place in places)

    def _json(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        with _text(path, "\n", self.spec.encoding) as stream:
            first = next((line for line in stream if line.strip()), "")
            stream.seek(0)
            array = first.lstrip("\ufeff \t").startswith("[")
            for document in json.load(stream) if array else map(json.loads, filter(str.strip, stream)):
                yield tuple(document.get(name) for name in columns)

    def _sqlite(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(self.spec.sql)
            places = _places([column[0] for column in cursor.description], columns, path)
            for row in cursor:
                yield tuple(row[place] for place in places)

    def _duckdb(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        check_installed(f"--tables for {path.name}", "duckdb")
        import duckdb

        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            cursor = connection.execute(self.spec.sql)
            places = _places([column[0] for column in cursor.description or ()], columns, path)
            while rows := cursor.fetchmany(BATCH):
                for row in rows:
                    yield tuple(row[place] for place in places)


def _not_read(name: str, what: str) -> UsageError:
    return UsageError(
        f"--tables cannot read {name} again",
        found=what,
        expected="Parquet, CSV, JSON, Arrow, Avro, NumPy, HDF5, SQLite or DuckDB files",
        remedy="Leave --tables out.",
    )


def _fits(names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether the parts of a key are those of a pattern, in which ``**`` stands for any of them."""
    places = {0}
    for name in [*names, None]:
        for place in range(len(wanted)):  # ``**`` may stand for nothing
            if place in places and wanted[place].startswith("**"):
                places.add(place + 1) if wanted[place] == "**" and place + 1 < len(wanted) else None
        if name is None:
            return len(wanted) in places
        after = set()
        for place in places - {len(wanted)}:
            part = wanted[place]
            if part.startswith("**"):
                after.add(place)
                if place + 1 == len(wanted) and fnmatchcase(name, part):
                    after.add(len(wanted))
            elif fnmatchcase(name, part):
                after.add(place + 1)
        places = after
    return False


def _folders(key: str) -> dict[str, str]:
    parts = [part.partition("=") for part in key.split("/")[:-1]]
    return {name: value for name, equals, value in parts if equals and name}


def _places(names: Sequence[str], columns: Sequence[str], path: Path) -> list[int]:
    stripped = [name.strip() for name in names]
    known = list(names) if {*columns} <= {*names} else stripped
    missing = [name for name in columns if known.count(name) != 1]
    if missing:
        raise InvalidInputError(
            f"{path.name} does not have the column {missing[0]!r} once", found=", ".join(map(repr, known))
        )
    return [known.index(name) for name in columns]


def _text(path: Path, newline: str = "", encoding: str = "") -> TextIO:
    packed = path.suffix == ".gz"
    stream = gzip.open(path) if packed else path.open("rb")  # noqa: SIM115 - the wrapper closes it
    return io.TextIOWrapper(stream, encoding=encoding or "utf-8-sig", newline=newline)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    with pq.ParquetFile(path) as file:
        places = _places(file.schema_arrow.names, columns, path)
        for batch in file.iter_batches(BATCH):
            yield from _of_batch(batch, places)


def _of_batch(batch: pa.RecordBatch, places: Sequence[int]) -> Iterator[Row]:
    lists = [batch.column(place).to_pylist() for place in places]
    return zip(*lists, strict=True) if lists else iter([()] * len(batch))


def _arrow(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    with pa.OSFile(str(path)) as stream:
        try:
            table = pa.ipc.open_file(stream).read_all()
        except pa.ArrowInvalid:
            stream.seek(0)
            table = pa.ipc.open_stream(stream).read_all()
    places = _places(table.schema.names, columns, path)
    for batch in table.to_batches(BATCH):
        yield from _of_batch(batch, places)


def _npy(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    for row, value in enumerate(np.load(path, mmap_mode="r", allow_pickle=False)):
        values = {"row": row, "value": value.tolist()}
        yield tuple(values[name] for name in columns)


def _hdf5(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    check_installed(f"--tables for {path.name}", "h5py")
    import h5py

    with h5py.File(path) as file:
        values: dict[str, Any] = {name: file[name] for name in columns if name != "row"}
        for row in range(len([*values.values(), *file.values()][0])):
            one = {name: np.asarray(rows[row]).tolist() for name, rows in values.items()}
            found = [row if name == "row" else one[name] for name in columns]
            yield tuple(value.decode() if isinstance(value, bytes) else value for value in found)


def _avro(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    check_installed(f"--tables for {path.name}", "fastavro")
    import fastavro

    with path.open("rb") as stream:
        for row in fastavro.reader(stream):
            yield tuple(row[name] for name in columns)  # type: ignore[index, call-overload]


def _unlimited(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows with fields of any length; the limit is that of the process, so it is put back."""
    row: list[str] | None = []
    while row is not None:
        limit = csv.field_size_limit(1 << 30)
        try:
            row = next(rows, None)
        finally:
            csv.field_size_limit(limit)
        if row is not None:
            yield row
