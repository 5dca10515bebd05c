"""A fast parser of CSV files of edges whose rows are two plain numbers, and columns that later readers read.

The parser knows digits, one delimiter and line breaks. It stops at the first row with anything else, such as
a sign, a quote or a missing field; pyarrow reads the file from there, and reports what is wrong.

Columns of CSV and Parquet files are kept inside `keep_columns` only: all stages of one process then parse or
decode a file once. They belong to one state of one file, and are removed at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import FileFormat
from partition_ops.storage import Store
from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
Pair = tuple[Ids, Ids]
FileState = tuple[int, ...]
Text = npt.NDArray[np.uint8]
ROW_BYTES = 12  # of text, about; only the size of blocks depends on it
MOST_DIGITS = 18  # all such numbers fit into 64 bits
NEW_LINE, RETURN, ZERO, NINE = b"\n\r09"
NARROW = np.iinfo(np.int32).max


class PlainRows:
    """The rows of a CSV file with two columns, up to the first one that is not plain.

    Args:
        path: The file; it has two columns.
        file_format: Its delimiter.
        header: Whether the first line has names.
        rows: About how many rows a block has.

    Attributes:
        path: The file.
        done: Number of rows that were yielded.
        complete: Whether these are all rows of the file.
    """

    def __init__(self, path: Path, file_format: FileFormat, *, header: bool, rows: int) -> None:
        self.path = path
        self._delimiter = file_format.delimiter
        self._header = header
        self._size = rows * ROW_BYTES
        self.done = 0
        self.complete = False

    def __iter__(self) -> Iterator[Pair]:
        """Yield (n,) int64 sources and destinations; peak memory: 2.5 times a block of text."""
        delimiter = self._delimiter.encode()
        if len(delimiter) != 1 or delimiter in b"0123456789\r\n":
            return
        with self.path.open("rb", buffering=0) as stream:
            if self._header and not _skip_line(stream):
                return
            yield from self._blocks(stream, delimiter[0])

    def _blocks(self, stream: FileIO, delimiter: int) -> Iterator[Pair]:
        text: Text = np.empty(self._size + 1, np.uint8)
        held, ended = 0, False  # bytes of a row that has begun
        while not ended:
            read = stream.readinto(text[held : self._size].data)
            ended, end = read == 0, held + read
            if ended and held:
                text[end] = NEW_LINE  # perhaps the last row has none
                end += 1
            most = int(np.count_nonzero(text[:end] == NEW_LINE))
            src, dst = np.empty(most, np.int64), np.empty(most, np.int64)
            found, used, plain = parse_rows(text[:end], delimiter, src, dst)
            if found:
                self.done += found
                yield src[:found], dst[:found]
            held = end - used
            if not plain or (ended and held) or held == self._size:  # the last: a long line
                return
            text[:held] = text[used:end].copy()
        self.complete = True


def _skip_line(stream: FileIO) -> bool:
    """Move to the second line; return False if the first has quotes or other line breaks."""
    first = stream.read(1 << 16)
    line, end, _ = first.partition(b"\n")
    stream.seek(len(line) + len(end))
    return b'"' not in line and b"\r" not in line.removesuffix(b"\r") and (bool(end) or not first)


@compiled
def parse_rows(text: Text, delimiter: int, src: Ids, dst: Ids) -> tuple[int, int, bool]:
    """Parse rows of two numbers of digits; blank lines are not rows.

    Args:
        text: (n,) uint8, from the beginning of a row.
        delimiter: Code of the character between the numbers.
        src: (line breaks in the text,) int64, output.
        dst: The same for the second column.

    Returns:
        The number of rows; the bytes that they take; whether the text ends there or in a row that is cut off:
        otherwise the next row is not plain.
    """
    rows, used, at, end = 0, 0, 0, len(text)
    while at < end:
        first = np.int64(0)
        begin = at
        while at < end and ZERO <= text[unsigned(at)] <= NINE:
            first = first * 10 + (text[unsigned(at)] - ZERO)
            at += 1
        if at == end:
            break
        if at == begin and (text[unsigned(at)] == NEW_LINE or text[unsigned(at)] == RETURN):
            second_begin = -1  # a blank line
        else:
            if at == begin or at - begin > MOST_DIGITS or text[unsigned(at)] != delimiter:
                return rows, used, False
            at += 1
            second = np.int64(0)
            second_begin = at
            while at < end and ZERO <= text[unsigned(at)] <= NINE:
                second = second * 10 + (text[unsigned(at)] - ZERO)
                at += 1
            if at == end:
                break
            if at == second_begin or at - second_begin > MOST_DIGITS:
                return rows, used, False
        if text[unsigned(at)] == RETURN:
            at += 1
            if at == end:
                break
        if text[unsigned(at)] != NEW_LINE:
            return rows, used, False
        at += 1
        used = at
        if second_begin >= 0:
            src[unsigned(rows)] = first
            dst[unsigned(rows)] = second
            rows += 1
    return rows, used, True


@dataclass(frozen=True)
class _Columns:
    """Two files of numbers, and the state of the file that they were parsed from."""

    state: FileState
    rows: int
    dtype: np.dtype[Any]
    paths: tuple[Path, Path]

    def blocks(self, rows: int) -> Iterator[Pair] | None:
        """Return blocks of (rows,) int64 sources and destinations; None if the files are gone."""
        try:
            stack = ExitStack()
            streams = [stack.enter_context(path.open("rb", buffering=0)) for path in self.paths]
        except OSError:
            return None
        return self._read(stack, streams, rows)

    def _read(self, stack: ExitStack, streams: list[FileIO], rows: int) -> Iterator[Pair]:
        with stack:
            for begin in range(0, self.rows, rows):
                size = min(rows, self.rows - begin)
                src, dst = (_read_rows(stream, size, self.dtype) for stream in streams)
                yield src, dst


def _read_rows(stream: FileIO, rows: int, dtype: np.dtype[Any]) -> Ids:
    found = np.empty(rows, dtype)
    view, begin = memoryview(found.data).cast("B"), 0
    while begin < len(view):
        read = stream.readinto(view[begin:])
        if not read:
            raise EOFError(f"A temporary file of {rows} rows ends at byte {begin}")
        begin += read
    return found.astype(np.int64, copy=False)


class NewColumns:
    """Two files of numbers that are being written.

    Args:
        streams: The files; none if they cannot be written.
        dtype: Of the numbers in them.

    Attributes:
        rows: Number of rows so far.
        complete: Whether all rows of the file are there.
    """

    def __init__(self, streams: list[FileIO], dtype: np.dtype[Any]) -> None:
        self._streams = streams
        self._dtype = dtype
        self.rows = 0
        self.complete = False

    def add(self, pair: Pair | None) -> None:
        """Append (n,) int64 sources and destinations; None for rows that cannot be kept."""
        if self._streams and (pair is None or not _append(self._streams, pair, self._dtype)):
            self._streams = []
        if pair is not None:
            self.rows += len(pair[0])

    def end(self) -> None:
        """Say that these are all rows of the file."""
        self.complete = bool(self._streams)


class KeptColumns:
    """Columns of files that have been parsed; usable from several threads.

    Args:
        folder: Where they are: 8 bytes an edge, 16 if a type has 2^31 nodes or more.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._columns: dict[tuple[str, FileFormat], _Columns] = {}

    def find(self, key: str, file_format: FileFormat, state: FileState, rows: int) -> Iterator[Pair] | None:
        """Return the rows of a file in blocks, if they are kept and the file has not changed since."""
        found = self._columns.get((key, file_format))
        return found.blocks(rows) if found is not None and found.state == state else None

    @contextmanager
    def new(
        self, key: str, file_format: FileFormat, state: FileState, path: Path, *, narrow: bool
    ) -> Iterator[NewColumns]:
        """Yield columns to fill; they are kept if they are complete when the context ends.

        If the disk is full, or an ID does not fit, the columns are not kept.

        Args:
            key: Key of the file.
            file_format: Its format.
            state: Its `file_state` before anything of it was read.
            path: Its local copy.
            narrow: Whether all IDs fit into 32 bits.
        """
        dtype = np.dtype(np.int32 if narrow else np.int64)
        number = next(self._numbers)
        paths = self._folder / f"{number}.src", self._folder / f"{number}.dst"
        kept = False
        try:
            with ExitStack() as stack:
                columns = NewColumns(self._open(stack, paths), dtype)
                yield columns
            kept = columns.complete and state == file_state(path)
        finally:
            if not kept:
                _remove(paths)
        if kept:
            self._columns[key, file_format] = _Columns(state, columns.rows, dtype, paths)

    def keep(
        self, key: str, file_format: FileFormat, state: FileState, parsed: PlainRows, *, narrow: bool
    ) -> Iterator[Pair]:
        """Yield the blocks of a CSV file, and keep them if all of its rows are plain; see `new`."""
        with self.new(key, file_format, state, parsed.path, narrow=narrow) as columns:
            for pair in parsed:
                columns.add(pair)
                yield pair
            if parsed.complete:
                columns.end()

    def remove(self, key: str, file_format: FileFormat) -> None:
        """Remove the columns of a file, which nobody reads again."""
        found = self._columns.pop((key, file_format), None)
        if found is not None:
            _remove(found.paths)

    def _open(self, stack: ExitStack, paths: tuple[Path, Path]) -> list[FileIO]:
        try:
            return [stack.enter_context(path.open("wb", buffering=0)) for path in paths]
        except OSError:
            return []


def _append(streams: list[FileIO], pair: Pair, dtype: np.dtype[Any]) -> bool:
    """Append a block; return whether it could be done."""
    # as unsigned numbers, those below zero are the largest
    if dtype == np.int32 and any(ids.view(np.uint64).max(initial=0) > NARROW for ids in pair):
        return False
    try:
        for stream, ids in zip(streams, pair, strict=True):
            data = memoryview(ids.astype(dtype, copy=False).data).cast("B")
            if stream.write(data) != len(data):
                return False
    except OSError:
        return False
    return True


def _remove(paths: tuple[Path, Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def file_state(path: Path) -> FileState:
    """Return what changes whenever the content of a file does: nobody can set the time of its inode."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_KEPT: WeakKeyDictionary[Store, KeptColumns] = WeakKeyDictionary()


@contextmanager
def keep_columns(source: Store) -> Iterator[None]:
    """Let the readers of a graph's edges keep the columns that they read, for readers during the block.

    Disk (below ``TMPDIR``): 8 bytes an edge, 16 if a type has 2^31 nodes or more.
    """
    with temporary_folder() as folder:
        _KEPT[source] = KeptColumns(Path(folder))
        try:
            yield
        finally:
            del _KEPT[source]


def kept_columns(source: Store) -> KeptColumns | None:
    """Return the columns that are kept of a graph; None outside `keep_columns`."""
    return _KEPT.get(source)
