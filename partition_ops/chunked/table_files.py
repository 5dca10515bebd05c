"""Functions for CSV and Parquet files, with errors that name file, row and value.

Messages count rows from 0, as IDs are counted, and lines of CSV files from 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from partition_ops.chunked.metadata import FileFormat
from partition_ops.errors import InvalidInputError

CSV_BLOCK = 16 << 20
PARQUET_BATCH = 1 << 20
LONGEST_LINE = CSV_BLOCK  # bytes; pyarrow reads no longer one
SHOWN = 100
VALUE = re.compile(
    r"\s*(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)|true|false)\s*", re.I
)


def csv_layout(path: Path, file_format: FileFormat, where: str) -> tuple[int, bool]:
    """Return the number of columns of a CSV file and whether it has a header; (0, False) if it is empty.

    If the metadata does not say whether there is a header, the first line is one if none of its fields is a
    value.

    Raises:
        InvalidInputError: The file is not a text file, not CSV, or its first line is blank.
    """
    with path.open("rb") as stream:
        first = stream.readline(LONGEST_LINE)
        more = not first.strip(b"\r\n") and any(line.strip() for line in stream)
    if len(first) == LONGEST_LINE:
        raise InvalidInputError(
            f"{where}: line 1 is too long",
            found=f"no line break in the first {LONGEST_LINE:,} bytes",
            expected="a line for each row, with '\\n' at its end",
        )
    try:
        text = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{where} is not a text file", found=f"the bytes {first[:20]!r}") from error
    if more:
        raise InvalidInputError(
            f"{where}: line 1 is blank",
            expected="the first row or the names of the columns",
            remedy="Remove the line.",
        )
    if not text:
        return 0, False
    try:
        fields = next(csv.reader([text], delimiter=file_format.delimiter))
    except csv.Error as error:
        raise InvalidInputError(f"{where} cannot be read as CSV: {error}", found=repr(text[:20])) from error
    guessed = not any(VALUE.fullmatch(field) or not field.strip() for field in fields)
    return len(fields), guessed if file_format.header is None else file_format.header


def csv_options(
    file_format: FileFormat, columns: list[str], header: bool
) -> tuple[pa_csv.ReadOptions, pa_csv.ParseOptions]:
    """Return options for pyarrow's CSV readers, which give the columns the names in ``columns``."""
    read = pa_csv.ReadOptions(column_names=columns, skip_rows=int(header), block_size=CSV_BLOCK)
    return read, pa_csv.ParseOptions(delimiter=file_format.delimiter)


class PlainNumbers(io.RawIOBase):
    """A CSV file for pyarrow's readers, which would decompress it by its name and accept hexadecimal numbers.

    Args:
        path: The file.
        header: Whether the first line has names.
    """

    def __init__(self, path: Path, header: bool) -> None:
        super().__init__()
        self._stream = path.open("rb")
        self._in_header = header

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = values = self._stream.read(size)
        if self._in_header:
            _, end, values = data.partition(b"\n")
            self._in_header = not end
        if b"x" in values or b"X" in values:
            raise pa.ArrowInvalid("a value has the letter x")
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


def number_column(numbers: npt.NDArray[Any]) -> pa.Array:
    """Return a contiguous array of numbers as a column without a copy; `pa.array` would import pandas."""
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)]
    )


def column_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as a read-only array; `to_numpy` would import pandas."""
    if not len(column):
        return np.empty(0, column.type.to_pandas_dtype())
    values = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())
    return values[column.offset : column.offset + len(column)]


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file for the module ``csv``, with their line breaks.

    Raises:
        csv.Error: A line is too long.
    """
    with path.open(newline="", encoding=encoding, errors="replace") as stream:
        while line := stream.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise csv.Error(f"the next line has more than {LONGEST_LINE:,} characters")
            yield line


@contextmanager
def parquet_file(path: Path | RawIOBase, where: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file.

    Raises:
        InvalidInputError: The file is not Parquet, or is damaged.
    """
    try:
        # with pre_buffer, pyarrow reads the columns of the whole file before the first batch
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise InvalidInputError(
            f"{where} cannot be read as Parquet: {first_sentence(error)}",
            remedy="Write the file again, or correct its format in metadata.json.",
        ) from error


def first_sentence(error: BaseException) -> str:
    """Return the first line of another library's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def blank_line_note(path: Path) -> str:
    """Return a note about the first blank line, for messages about missing rows; empty if there is none."""
    with path.open("rb") as stream:
        line = next((number for number, text in enumerate(stream, 1) if not text.strip(b"\r\n")), None)
    return "" if line is None else f"; line {line} is blank and does not count as a row"


def bad_value(path: Path, file_format: FileFormat, columns: int, header: bool) -> str | None:
    """Return text and number of the first line that does not have ``columns`` numbers; None if all have.

    Blank lines are ignored, as by the reader.
    """
    lines = csv.reader(text_lines(path, "utf-8-sig"), delimiter=file_format.delimiter)
    try:
        for index, fields in enumerate(filter(None, lines)):
            valid = len(fields) == columns and all(map(VALUE.fullmatch, fields))
            if not valid and index >= int(header):
                text = file_format.delimiter.join(fields)
                return f"{text[:SHOWN]!r} in line {lines.line_num}"
    except csv.Error as error:
        return f"line {lines.line_num}: {error}"
    return None
