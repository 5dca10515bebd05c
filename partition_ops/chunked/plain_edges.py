"""A fast parser of CSV files of edges whose rows are two plain numbers.

The parser knows digits, one delimiter and line breaks. It stops at the first row with anything else, such as
a sign, a quote or a missing field; pyarrow reads the file from there, and reports what is wrong.
docs/decisions/tricks.md has what it saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import FileFormat
from partition_ops.system.compilation import compiled, unsigned

Ids = npt.NDArray[np.int64]
Pair = tuple[Ids, Ids]
Text = npt.NDArray[np.uint8]
ROW_BYTES = 12  # of text, about; only the size of blocks depends on it
MOST_DIGITS = 18  # all such numbers fit into 64 bits
NEW_LINE, RETURN, ZERO, NINE = b"\n\r09"


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
