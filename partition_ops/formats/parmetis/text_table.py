"""Read tables of numbers in text with any white space between the fields, block by block.

Lines are read at the speed of pyarrow's CSV reader while exactly one space separates the fields; from the
first line with other white space on, the text is converted to that form first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.chunked.table_files import CSV_BLOCK, first_sentence
from partition_ops.errors import InvalidInputError

Ids = npt.NDArray[np.int64]
INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class TextBlock:
    """Some consecutive rows.

    Attributes:
        start: Number of the first row; blank lines do not count.
        columns: (n,) int64 each, by name.
        attributes: (n, attributes) of the table's attribute dtype; None if they are not read.
    """

    start: int
    columns: dict[str, Ids]
    attributes: npt.NDArray[Any] | None


class TextTable:
    """A file with rows of named integers, followed by attributes.

    About 16 MiB of text are in memory at a time. Usable from one thread.

    Args:
        path: The file.
        where: Its URI, for messages.
        columns: Names of the integers at the beginning of every row.
        attributes: Dtype of the attributes; None skips them.

    Attributes:
        longest: After `blocks`: if the first row has no attributes, the largest number of them in a row.
    """

    def __init__(
        self,
        path: Path,
        where: str,
        columns: Sequence[str],
        *,
        attributes: np.dtype[Any] | None = None,
    ) -> None:
        self.where = where
        self.dtype = attributes
        self.longest = 0
        self._path = path
        self._columns = tuple(columns)

    @property
    def width(self) -> int | None:
        """Number of attributes in the first row; None for a table without rows."""
        return max(0, len(self._first_row) - len(self._columns)) if self._first_row else None

    @property
    def words(self) -> list[str]:
        """The attributes in the first row that are not numbers."""
        found = []
        for field in self._first_row[len(self._columns) :]:
            try:
                float(field)
            except ValueError:
                found.append(field.decode(errors="replace"))
        return found

    @cached_property
    def _first_row(self) -> list[bytes]:
        with self._path.open("rb") as stream:
            return next((line.split() for line in stream if line.strip()), [])

    def blocks(self) -> Iterator[TextBlock]:
        """Yield the rows in order.

        Raises:
            InvalidInputError: A row has too few or too many fields, or one that is no number; names the line.
        """
        if self.width is None:
            return
        done = 0
        try:
            for block in self._parsed(pa.OSFile(str(self._path)), 0):
                yield block
                done += len(next(iter(block.columns.values())))
            return
        except pa.ArrowInvalid:
            pass  # other white space, other numbers of attributes that are skipped, or an error
        text = _PlainText(self._path, self._kept)
        try:
            yield from self._parsed(pa.PythonFile(text, "r"), done)
        except pa.ArrowInvalid as error:
            raise self._bad_line(error) from error
        self.longest = text.longest - len(self._columns)

    def samples(self, count: int) -> Iterator[TextBlock]:
        """Yield rows from ``count`` places as one block without row numbers; nothing if one is malformed.

        For a first look only: `blocks` reads all rows, and reports errors.
        """
        size = self._path.stat().st_size
        lines = []
        with self._path.open("rb") as stream:
            for place in range(0, size, max(size // count, 1)):
                stream.seek(place)
                stream.readline()
                lines.append(stream.readline().split()[: len(self._columns)])
        try:
            rows = np.array([fields for fields in lines if fields], np.int64).reshape(-1, len(self._columns))
        except (ValueError, OverflowError):
            return
        yield TextBlock(0, dict(zip(self._columns, rows.T, strict=True)), None)

    def line(self, row: int) -> int:
        """Return the number of the line, from 1, of a row."""
        with self._path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                row -= bool(line.strip())
                if row < 0:
                    return number
        raise IndexError(row)

    def wrong(self, row: int, problem: str, *, found: str, expected: str) -> InvalidInputError:
        """Return the error about an invalid row, which names file and line."""
        return InvalidInputError(
            f"{self.where}, line {self.line(row)}: {problem}", found=found, expected=expected
        )

    def require(
        self,
        block: TextBlock,
        good: npt.NDArray[np.bool_],
        problem: str,
        expected: Callable[[int], str],
    ) -> None:
        """Raise an error if a row of a block is not good.

        Args:
            block: The rows.
            good: (n,) bool.
            problem: What is wrong with the others.
            expected: Returns what was expected, from the index of the row in the block.
        """
        if good.all():
            return
        bad = int(np.flatnonzero(~good)[0])
        found = ", ".join(f"<{name}> {int(values[bad])}" for name, values in block.columns.items())
        raise self.wrong(block.start + bad, problem, found=found, expected=expected(bad))

    @property
    def _kept(self) -> int | None:
        """Number of fields of a line to keep; None for all."""
        return len(self._columns) if self.dtype is None else None

    def _parsed(self, file: Any, skip: int) -> Iterator[TextBlock]:
        width = self.width or 0
        extra = 0 if isinstance(file, pa.PythonFile) and self.dtype is None else width
        names = [*self._columns, *(f"attribute {i}" for i in range(extra))]
        wanted = names if self.dtype is not None else list(self._columns)
        kinds = [*([INT64] * len(self._columns)), *([self.dtype] * extra if self.dtype else [])]
        types = {name: _arrow_type(kind) for name, kind in zip(wanted, kinds, strict=True)}
        read = pa_csv.ReadOptions(column_names=names, block_size=CSV_BLOCK)
        parse = pa_csv.ParseOptions(delimiter=" ", quote_char=False)
        convert = pa_csv.ConvertOptions(column_types=types, include_columns=wanted, null_values=[])
        row = 0
        with pa_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                fresh = batch.slice(max(0, skip - row))
                if fresh.num_rows:
                    yield self._block(fresh, row + batch.num_rows - fresh.num_rows)
                row += batch.num_rows

    def _block(self, batch: pa.RecordBatch, start: int) -> TextBlock:
        arrays = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        count = len(self._columns)
        attributes = None
        if self.dtype is not None:
            attributes = np.empty((batch.num_rows, len(arrays) - count), self.dtype)
            for index, array in enumerate(arrays[count:]):
                attributes[:, index] = array
        return TextBlock(start, dict(zip(self._columns, arrays[:count], strict=True)), attributes)

    def _bad_line(self, error: BaseException) -> InvalidInputError:
        """Read the file again, slowly, to find the line that pyarrow could not parse."""
        fixed = len(self._columns)
        expected = fixed + (self.width or 0)
        with self._path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                fields = line.split()
                wrong = self._wrong_field(fields, fixed, expected)
                if fields and wrong is not None:
                    found = line.strip()[:100].decode(errors="replace")
                    uneven = self.dtype is not None and len(fields) != expected
                    return InvalidInputError(
                        f"{self.where}, line {number}: {wrong}",
                        found=repr(found),
                        remedy="Give all rows as many attributes as the first one has." if uneven else None,
                    )
        return InvalidInputError(f"{self.where} cannot be read: {first_sentence(error)}")

    def _wrong_field(self, fields: list[bytes], fixed: int, expected: int) -> str | None:
        if len(fields) < fixed or (self.dtype is not None and len(fields) != expected):
            least = "at least " if self.dtype is None else ""
            return f"the row has {len(fields)} fields and not {least}{fixed if least else expected}"
        kinds = [*([INT64] * fixed), *([self.dtype] * (expected - fixed) if self.dtype else [])]
        names = [*self._columns, *(f"attribute {i + 1}" for i in range(expected - fixed))]
        for name, field, kind in zip(names, fields, kinds, strict=False):
            text = pa.array([field.decode("utf-8", errors="replace")])
            try:
                text.cast(_arrow_type(kind))
            except pa.ArrowInvalid:
                return f"<{name}> is not {kind} but {text[0].as_py()[:40]!r}"
        return None


def _arrow_type(dtype: np.dtype[Any]) -> pa.DataType:
    # pyarrow reads no 16-bit floating-point numbers from text; numpy rounds them afterwards
    return pa.float32() if dtype == np.float16 else pa.from_numpy_dtype(dtype)


class _PlainText:
    """A file object for pyarrow, with one space between the fields and none around them."""

    closed = False

    def __init__(self, path: Path, kept: int | None) -> None:
        self._stream = path.open("rb")
        self._kept = kept
        self._rest = b""
        self.longest = 0

    def read(self, size: int) -> bytes:
        if not self._rest:
            rows = [line.split() for line in self._stream.readlines(CSV_BLOCK)]
            self.longest = max(self.longest, *map(len, rows)) if rows else self.longest
            self._rest = b"".join(b" ".join(fields[: self._kept]) + b"\n" for fields in rows)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def close(self) -> None:
        self.closed = True
        self._stream.close()
