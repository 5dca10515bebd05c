"""The user's own IDs of the nodes or edges of a type, to put beside restored rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from partition_ops.chunked.metadata import METADATA
from partition_ops.chunked.table_files import CSV_BLOCK, first_sentence, parquet_file
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import Store

SUFFIXES = (".parquet", ".csv", ".txt")
ROWS = 1 << 16  # strings may be long
ORIG_ID = "orig_id"


@dataclass(frozen=True)
class StringIds:
    """A column with one value for each type-wise ID of the input, in their order.

    Files are Parquet, CSV with a header, or text with one ID a line (``.txt``), by their names. If a file
    also has a column ``orig_id``, it must count from 0, so that a file in another order is noticed.
    """

    store: Store  # where the files are
    keys: tuple[str, ...]  # the files, in order
    column: str | None = None  # name of the column; may be left out if the only other column is ``orig_id``

    def blocks(self) -> Iterator[pa.Array]:
        """Yield the values in blocks: strings as strings, integers as integers.

        Raises:
            UsageError: A file name has no known suffix.
            InvalidInputError: A file cannot be read, has no such column, lacks a value, or is not in the
                order of the type-wise IDs.

        Peak memory: 65536 values, or 16 MiB of text.
        """
        row = 0
        for key in self.keys:
            for table in _tables(self.store, key):
                values = self._values(table, self.store.uri_of(key), row)
                row += len(values)
                yield values

    def _values(self, table: pa.RecordBatch, where: str, row: int) -> pa.Array:
        values = table.column(self._column(table.schema.names, where))
        if values.null_count:
            raise InvalidInputError(f"{where}: an ID is missing from row {row} on", found="null")
        if ORIG_ID in table.schema.names:
            expected = pa.array(range(row, row + table.num_rows), pa.int64())
            if not pc.all(pc.equal(table.column(ORIG_ID).cast(pa.int64()), expected)).as_py():
                raise InvalidInputError(
                    f"{where}: {ORIG_ID!r} does not count from 0, from row {row} on",
                    remedy=f"Sort the rows by {ORIG_ID}; every node or edge of the type must have one.",
                )
        return values

    def _column(self, names: list[str], where: str) -> str:
        others = [name for name in names if name != ORIG_ID]
        if self.column in names:
            return str(self.column)
        if self.column is None and len(others) == 1:
            return others[0]
        raise InvalidInputError(
            f"{where}: it is not clear which column has the IDs"
            if self.column is None
            else f"{where} has no column {self.column!r}",
            found=", ".join(map(repr, names)),
            remedy="Name it with --ids-column, or with 'column' in metadata.json.",
        )


def ids_of_input(source: Store, type_name: str, *, edges: bool) -> StringIds:
    """Return the IDs that ``metadata.json`` of an input names, under ``node_ids`` or ``edge_ids``.

    By type, an object with ``data`` (files relative to ``metadata.json``) and, where they have several
    columns, ``column``. DGL's tools pass over it.

    Raises:
        InvalidInputError: It names none for the type.
    """
    key = "edge_ids" if edges else "node_ids"
    where = source.uri_of(METADATA)
    spec: Any = source.read_json(METADATA).get(key, {}).get(type_name)
    expected = f"{key!r}: {{{type_name!r}: {{'data': [files], 'column': name}}}}"
    if spec is None:
        raise InvalidInputError(f"{where} names no file with IDs of {type_name!r}", expected=expected)
    files, column = (spec.get("data"), spec.get("column")) if isinstance(spec, dict) else (None, None)
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise InvalidInputError(f"{where}: {key!r} of {type_name!r} names no files", expected=expected)
    return StringIds(source, tuple(files), column)


def _tables(store: Store, key: str) -> Iterator[pa.RecordBatch]:
    suffix, where = PurePosixPath(key).suffix, store.uri_of(key)
    if suffix not in SUFFIXES:
        raise UsageError("A file name has no known suffix", found=repr(key), expected=" or ".join(SUFFIXES))
    path = store.local_copy(key)
    if suffix == ".parquet":
        with parquet_file(path, where) as file:
            for batch in file.iter_batches(batch_size=ROWS):
                columns = [  # dictionaries would make the types of two files differ
                    column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                    for column in batch.columns
                ]
                yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        return
    read = pa_csv.ReadOptions(block_size=CSV_BLOCK, column_names=["id"] if suffix == ".txt" else None)
    parse = pa_csv.ParseOptions()
    convert = pa_csv.ConvertOptions(strings_can_be_null=False)
    if suffix == ".txt":  # a line is an ID, whatever is in it
        parse = pa_csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False)
        convert = pa_csv.ConvertOptions(column_types={"id": pa.string()}, strings_can_be_null=False)
    try:
        with pa_csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise InvalidInputError(f"{where} cannot be read: {first_sentence(error)}") from error
