"""Readers for feature files in each format: NumPy, Parquet and CSV."""

from __future__ import annotations

import io
import math
import re
import threading
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.chunked.metadata import FileFormat
from partition_ops.chunked.table_files import (
    PlainNumbers,
    bad_value,
    csv_layout,
    csv_options,
    first_sentence,
    parquet_file,
)
from partition_ops.errors import InvalidInputError
from partition_ops.storage.store import Store
from partition_ops.system.temporary_folders import temporary_folder

Values = npt.NDArray[Any]

NUMPY = b"\x93NUMPY"
LONGEST_HEADER = 10_000 + 12  # bytes: NumPy's limit for a header, and what precedes it
HEADER_LOCK = threading.Lock()  # NumPy parses headers with ast, which is not thread-safe in CPython 3.11


def read_numpy(path: Path, where: str) -> Values:
    try:
        with HEADER_LOCK:
            values: Values = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy parses the header as Python, and opens files that look like zip files
        raise _not_numpy(path, where) from error
    if not isinstance(values, np.ndarray):  # an archive of arrays
        raise _not_numpy(path, where)
    if values.ndim == 0:
        raise InvalidInputError(f"{where}: the array has no rows", expected="at least one dimension")
    return values


def numpy_layout(head: bytes, where: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape of a row and number of rows, from the first `LONGEST_HEADER` bytes of a file."""
    try:
        dtype, shape, _ = _parse_header(head)
    except Exception as error:
        raise _refusal(_why_no_header(head), where) from error
    return dtype, shape[1:], math.prod(shape[:1])


def _parse_header(head: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype and shape of an array, and the offset of its values."""
    stream = io.BytesIO(head)
    with HEADER_LOCK:
        version = np.lib.format.read_magic(stream)
        old = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    return dtype, shape, stream.tell()


def _not_numpy(path: Path, where: str) -> InvalidInputError:
    """Return an error that says why a file is not an array that can be memory-mapped."""
    with path.open("rb") as stream:
        head = stream.read(LONGEST_HEADER)
    try:
        dtype, shape, begin = _parse_header(head)
    except Exception:
        return _refusal(_why_no_header(head), where)
    if dtype.hasobject:
        return _refusal("Python objects, which are not supported", where)
    needed, size = begin + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if size < needed:
        return _refusal(f"{size:,} bytes, but {needed:,} according to its header", where)
    return _refusal(f"an array of {dtype} with the shape {shape}", where)


def _why_no_header(head: bytes) -> str:
    if not head:
        return "an empty file"
    if head.startswith(b"PK"):
        return "an archive, as numpy.savez writes it"
    if not head.startswith(NUMPY):
        return f"a file that begins with {head[:8]!r}"
    return "a .npy file whose header is damaged or truncated"


def _refusal(found: str, where: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where} cannot be read as .npy",
        found=found,
        expected="an array of numbers, as numpy.save writes it",
        remedy="Write the file again, or correct its format in metadata.json.",
    )


def read_parquet(path: Path, where: str) -> Values:
    with parquet_file(path, where) as file:
        shape, rows = _written_shape(file.schema_arrow, where), int(file.metadata.num_rows)
        if shape is not None and rows > math.prod(shape):  # before rows are read that may not fit into memory
            raise _wrong_shape(shape, rows, where)
        values = _matrix(file.read(), where)
    if shape is None:
        return values
    try:
        return values.reshape(shape)
    except ValueError as error:
        raise _wrong_shape(shape, values.size, where) from error


def parquet_blocks(path: Path, where: str, rows: int) -> Iterator[Values]:
    """Yield the values of `read_parquet`, but not reshaped, at most ``rows`` rows at a time."""
    with parquet_file(path, where) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield _matrix(pa.Table.from_batches([batch]), where)


def parquet_rows(path: Path, where: str) -> int:
    """Return the number of rows of a table, from the footer of the file."""
    with parquet_file(path, where) as file:
        return int(file.metadata.num_rows)


def parquet_layout(path: Path | RawIOBase, where: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape of a row and number of rows, from the footer of the file."""
    with parquet_file(path, where) as file:
        empty = _matrix(file.schema_arrow.empty_table(), where)
        shape = _written_shape(file.schema_arrow, where)
        rows = file.metadata.num_rows
    return empty.dtype, empty.shape[1:] if shape is None else shape[1:], rows if shape is None else shape[0]


def _matrix(table: pa.Table, where: str) -> Values:
    columns = [
        _column(field, column, where) for field, column in zip(table.schema, table.columns, strict=True)
    ]
    if not columns:
        raise InvalidInputError(f"{where}: no columns", expected="at least one column of numbers")
    if len(columns) == 1:
        return columns[0]
    if any(column.ndim != 1 or column.dtype != columns[0].dtype for column in columns):
        raise InvalidInputError(
            f"{where}: several columns of different types",
            found=", ".join(f"{column.dtype} {column.shape[1:]}" for column in columns[:10]),
            expected="one column, or several scalar columns of one type",
        )
    return np.stack(columns, axis=1)


def _column(field: pa.Field, column: pa.ChunkedArray, where: str) -> Values:
    if column.null_count:
        raise InvalidInputError(
            f"{where}: the column {field.name!r} has missing values", found=f"{column.null_count} nulls"
        )
    kind, shape = field.type, []
    array = column.combine_chunks()
    while pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
        array = array.flatten()
        if array.null_count:
            raise InvalidInputError(f"{where}: the column {field.name!r} has missing values inside its lists")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InvalidInputError(
            f"{where}: the column {field.name!r} does not have numbers",
            found=str(field.type),
            expected="a number, a boolean, or a fixed-size list of them",
        )
    values: Values = array.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), *shape)


def _written_shape(schema: pa.Schema, where: str) -> tuple[int, ...] | None:
    """Return the shape that DGL's writer, which flattens arrays, stores in the metadata of the file."""
    text = (schema.metadata or {}).get(b"shape")
    if text is None:
        return None
    if not re.fullmatch(rb"\(\s*\d{1,18}(\s*,\s*\d{1,18})*\s*,?\s*\)", text):
        raise InvalidInputError(
            f"{where}: the 'shape' in the metadata of the file is not valid",
            found=repr(text[:100]),
            expected="'(n, …)'",
        )
    return tuple(int(length) for length in re.findall(rb"\d+", text))


def _wrong_shape(shape: tuple[int, ...], size: int, where: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where}: the 'shape' in the metadata of the file does not match the values",
        found=f"{shape}",
        expected=f"a shape with {size} values",
    )


def read_csv(path: Path, file_format: FileFormat, where: str) -> Values:
    columns, header = csv_layout(path, file_format, where)
    if columns == 0:
        return np.empty((0,), np.float64)
    names = [f"column {index}" for index in range(columns)]
    read, parse = csv_options(file_format, names, header)
    convert = pa_csv.ConvertOptions(null_values=[""])  # "nan" stays a number, which validation reports
    try:
        with PlainNumbers(path, header) as file:
            table = pa_csv.read_csv(file, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise InvalidInputError(
                f"{where} cannot be read as CSV",
                found=bad_value(path, file_format, columns, header) or first_sentence(error),
                expected=_numbers(columns),
            ) from error
        table = pa.table({})
    if table.num_rows == 0:  # a header without rows: the columns have no type
        return np.empty((0,) if columns == 1 else (0, columns), np.float64)
    try:
        values = [_column(field, column, where) for field, column in zip(table.schema, table, strict=True)]
    except InvalidInputError as error:
        found = bad_value(path, file_format, columns, header)
        if found is None:
            raise
        raise InvalidInputError(
            f"{where} has a line with missing numbers", found=found, expected=_numbers(columns)
        ) from error
    return values[0] if columns == 1 else np.stack(values, axis=1)


def read_csv_head(head: bytes, file_format: FileFormat, where: str) -> Values:
    """Return the values of the complete lines in the first bytes of a file."""
    lines, newline, _ = head.rpartition(b"\n")
    with temporary_folder() as folder:
        path = Path(folder) / "head.csv"
        path.write_bytes(lines + newline or head)
        return read_csv(path, file_format, where)


def _numbers(columns: int) -> str:
    return f"{columns} numbers per line, as in the first line" if columns > 1 else "one number per line"


class RangedFile(io.RawIOBase):
    """A stored object as a seekable file that downloads only the ranges that are read.

    Args:
        store: The root.
        key: Key of the object; a missing object is an empty file.
    """

    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key
        entry = store.stat(key)
        self._size = entry.size if entry else 0
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        data = self._store.read_range(self._key, self._at, end)
        self._at = end
        return data
