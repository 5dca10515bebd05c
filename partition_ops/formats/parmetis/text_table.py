"""Read tables of numbers in text with any white space between the fields, block by block, and write rows.

A block is read at the speed of pyarrow's CSV reader if exactly one space separates the fields; a block with
other white space is converted to that form first.
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
NEWLINE = 10
PARSED_AT_ONCE = 1 << 20  # bytes in one thread
FIELDS_AT_ONCE = 1 << 21  # that are written
WRITTEN_AS = {np.dtype(np.bool_): np.uint8, np.dtype(np.float16): np.float32}  # what pyarrow can write


@dataclass(frozen=True)
class TextBlock:
    """Some consecutive rows."""

    start: int  # number of the first row in the table; blank lines do not count
    columns: dict[str, Ids]  # (n,) int64 each, by name
    # (n, attributes) of the table's attribute dtype; None if they are not read
    attributes: npt.NDArray[Any] | None
    text: bytes  # the lines as they are in the file


class TextTable:
    """A file, or a share of it, with rows of named integers, followed by attributes.

    About 16 MiB of text are in memory at a time. Usable from one thread.

    Args:
        path: The file.
        where: Its URI, for messages.
        columns: Names of the integers at the beginning of every row.
        attributes: Dtype of the attributes; None skips them.
        share: Number of a share, and of all shares; each has the lines that begin in its equal part of the
            bytes of the file.

    Attributes:
        longest: After `blocks`: the largest number of attributes in a row.
    """

    def __init__(
        self,
        path: Path,
        where: str,
        columns: Sequence[str],
        *,
        attributes: np.dtype[Any] | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.where = where
        self.dtype = attributes
        self.longest = 0
        self._path = path
        self._columns = tuple(columns)
        self._share = share

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
        row = 0
        for text in self._texts():
            block = self._block(text, row)
            if block is not None:
                yield block
                row += len(next(iter(block.columns.values())))

    def lines(self, block: TextBlock) -> pa.LargeBinaryArray:
        """Return (n,) rows of a block as they are in the file, each with its line end."""
        ends = np.flatnonzero(np.frombuffer(block.text, np.uint8) == NEWLINE) + 1
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]
        lines = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers)
        short = np.flatnonzero(np.diff(offsets) < 2 * len(self._columns))  # too short for a row
        blank = [row for row in short.tolist() if not lines[row].as_py().strip()]
        if blank:
            lines = lines.take(pa.array(np.delete(np.arange(len(ends)), blank)))
        if len(lines) != len(block.columns[self._columns[0]]):
            raise InvalidInputError(f"{self.where} cannot be read")
        return lines

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
        yield TextBlock(0, dict(zip(self._columns, rows.T, strict=True)), None, b"")

    def line(self, row: int) -> int:
        """Return the number of the line, from 1, of a row."""
        place, begin = 0, self._range[0]
        with self._path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                row -= place >= begin and bool(line.strip())
                place += len(line)
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

    def check_count(self, found: int, expected: int, what: str) -> None:
        """Raise an error if the number of rows is not the one of the stats file."""
        if found != expected:
            raise InvalidInputError(
                f"{self.where} has another number of rows than the stats file counts {what}",
                found=found,
                expected=expected,
            )

    @cached_property
    def _range(self) -> tuple[int, int]:
        """Offsets of the first line of the share, and of the first one after it."""
        size = self._path.stat().st_size
        number, shares = self._share
        begin, end = (self._line_begin(size * share // shares) for share in (number, number + 1))
        return begin, end

    def _line_begin(self, place: int) -> int:
        """Return the offset of the first line that starts at or after ``place``."""
        if place == 0:
            return 0
        with self._path.open("rb") as stream:
            stream.seek(place - 1)
            stream.readline()
            return stream.tell()

    def _texts(self) -> Iterator[bytes]:
        """Yield whole lines, each with its line end, in pieces of about `CSV_BLOCK` bytes."""
        place, end = self._range
        with self._path.open("rb") as stream:
            while place < end:
                stream.seek(place)
                place = min(end, self._line_begin(place + CSV_BLOCK))
                text = stream.read(place - stream.tell())
                yield text if text.endswith(b"\n") else text + b"\n"

    def _block(self, text: bytes, start: int) -> TextBlock | None:
        """Return the rows of some lines; None if all are blank."""
        fixed, width = len(self._columns), self.width or 0
        first = len(text[: text.find(b"\n")].split())
        try:
            return self._parsed(text, width if self.dtype else max(0, first - fixed), start, text)
        except pa.ArrowInvalid:
            pass  # other white space, other numbers of attributes that are skipped, or an error
        rows = [fields for line in text.split(b"\n") if (fields := line.split())]
        if not rows:
            return None
        self.longest = max(self.longest, max(map(len, rows)) - fixed)
        kept, extra = (None, width) if self.dtype else (fixed, 0)
        plain = b"".join(b" ".join(fields[:kept]) + b"\n" for fields in rows)
        try:
            return self._parsed(plain, extra, start, text)
        except pa.ArrowInvalid as error:
            raise self._bad_line(error) from error

    def _parsed(self, plain: bytes, extra: int, start: int, text: bytes) -> TextBlock:
        """Parse rows with single spaces and ``extra`` attributes."""
        fixed = len(self._columns)
        self.longest = max(self.longest, extra)
        names = [*self._columns, *(f"attribute {i}" for i in range(extra))]
        kinds = [*([INT64] * fixed), *([self.dtype] * extra if self.dtype else [])]
        types = {name: _arrow_type(kind) for name, kind in zip(names, kinds, strict=False)}
        block_size = PARSED_AT_ONCE if plain is text else CSV_BLOCK  # a longer line is an error
        table = pa_csv.read_csv(
            pa.BufferReader(plain),
            read_options=pa_csv.ReadOptions(column_names=names, block_size=block_size),
            parse_options=pa_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=types, include_columns=[*types], null_values=[]
            ),
        )
        attributes = None
        if self.dtype is not None:
            attributes = np.empty((table.num_rows, extra), self.dtype)
            for index in range(extra):
                attributes[:, index] = table[fixed + index].to_numpy()
        return TextBlock(start, {name: table[name].to_numpy() for name in self._columns}, attributes, text)

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


def rows_at_once(attributes: int) -> int:
    """Return how many rows with so many attributes to write at a time, for about 20 MiB of text."""
    return max(1, FIELDS_AT_ONCE // (attributes + 4))


def text_rows(columns: Sequence[Ids], attributes: Sequence[npt.NDArray[Any]] = ()) -> pa.Buffer:
    """Return rows of non-negative integers and of attributes as text.

    Args:
        columns: (n,) int64 each, none negative.
        attributes: (n, width) each, of numbers; written with as few digits as restore the number, booleans
            as 0 and 1.

    Returns:
        The text, each row with its line end. Peak memory: the text and the columns once more.
    """
    arrays = [*columns, *(block[:, i] for block in attributes for i in range(block.shape[1]))]
    written = [np.ascontiguousarray(array, WRITTEN_AS.get(array.dtype, array.dtype)) for array in arrays]
    table = pa.table([pa.array(array) for array in written], names=list(map(str, range(len(arrays)))))
    sink = pa.BufferOutputStream()
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    pa_csv.write_csv(table, sink, options)
    return sink.getvalue()
