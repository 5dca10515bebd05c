"""One rank's share of a text file: consecutive lines, read in blocks, each with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.text_table import TextTable

BLOCK_BYTES = 16 << 20
NEWLINE = 10

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LineBlock:
    """Some consecutive rows.

    Attributes:
        columns: (n,) int64 each, by name.
        text: (n,) the rows as they are in the file, each with its line end.
        places: (n,) int64, the offset of each in the file.
    """

    columns: dict[str, Ids]
    text: pa.LargeBinaryArray
    places: Ids


class TextSlice:
    """The lines of a file that begin in one of several equal shares of its bytes.

    Args:
        path: The file.
        columns: Names of the integers at the beginning of every row; the rest of the row is not parsed.
        rank: Number of the share.
        ranks: Number of shares.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, rank: int, ranks: int) -> None:
        self.path = path
        self._columns = list(columns)
        if not path.is_file():
            raise InvalidInputError(
                f"There is no file {path}",
                remedy="Start the ranks in the folder with the three text files, which all hosts share.",
            )
        size = path.stat().st_size
        self._begin, self._end = (self._line_begin(size * share // ranks) for share in (rank, rank + 1))

    def blocks(self) -> Iterator[LineBlock]:
        """Yield the rows in order, about 16 MiB of text at a time.

        Raises:
            InvalidInputError: A row has too few fields, or one that is not an integer; names the line.
        """
        with self.path.open("rb") as stream:
            stream.seek(self._begin)
            while (place := stream.tell()) < self._end:
                data = stream.read(min(BLOCK_BYTES, self._end - place)) + stream.readline()
                if stream.tell() > self._end:  # one line too many
                    stream.seek(self._end)
                    data = data[: self._end - place]
                yield self._block(data, place)

    def wrong(self, block: LineBlock, good: npt.NDArray[np.bool_], problem: str, expected: str) -> None:
        """Raise an error if a row of a block is not good; the error names file and line."""
        if good.all():
            return
        row = int(np.flatnonzero(~good)[0])
        found = ", ".join(f"<{name}> {values[row]}" for name, values in block.columns.items())
        raise InvalidInputError(
            f"{self.path}, line {self._line(int(block.places[row]))}: {problem}",
            found=found,
            expected=expected,
        )

    def _line_begin(self, place: int) -> int:
        """Return the offset of the first line that starts at or after ``place``."""
        if place == 0:
            return 0
        with self.path.open("rb") as stream:
            stream.seek(place - 1)
            stream.readline()
            return stream.tell()

    def _block(self, data: bytes, place: int) -> LineBlock:
        data += b"" if data.endswith(b"\n") else b"\n"
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        text = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers)
        places = offsets[:-1] + place
        short = np.flatnonzero(np.diff(offsets) < 2 * len(self._columns))  # too short for a row
        if len(short):
            blank = [row for row in short.tolist() if not text[row].as_py().strip()]
            kept = np.delete(np.arange(len(ends)), blank)
            text, places = text.take(pa.array(kept)), places[kept]
        return LineBlock(self._parse(data, len(places)), text, places)

    def _parse(self, data: bytes, rows: int) -> dict[str, Ids]:
        if rows == 0:
            return {name: np.empty(0, np.int64) for name in self._columns}
        for plain in (False, True):
            try:
                table = _numbers(_cut(data, len(self._columns)) if plain else data, self._columns)
                if len(table[self._columns[0]]) == rows:
                    return table
            except pa.ArrowInvalid:
                pass  # other white space, rows with other numbers of attributes, or an error
        for _ in TextTable(self.path, str(self.path), self._columns).blocks():
            pass  # raises an error that names the line
        raise InvalidInputError(f"{self.path} cannot be read")

    def _line(self, place: int) -> int:
        with self.path.open("rb") as stream:
            blocks = (BLOCK_BYTES,) * (place // BLOCK_BYTES) + (place % BLOCK_BYTES,)
            return 1 + sum(stream.read(size).count(b"\n") for size in blocks)


def _numbers(data: bytes, columns: list[str]) -> dict[str, Ids]:
    width = len(data.split(b"\n", 1)[0].split())
    names = [*columns, *(f"attribute {i}" for i in range(width - len(columns)))]
    options: dict[str, Any] = {
        "read_options": pa_csv.ReadOptions(column_names=names),
        "parse_options": pa_csv.ParseOptions(delimiter=" ", quote_char=False),
        "convert_options": pa_csv.ConvertOptions(
            column_types={name: pa.int64() for name in columns}, include_columns=columns, null_values=[]
        ),
    }
    table = pa_csv.read_csv(pa.BufferReader(data), **options)
    return {name: table[name].to_numpy() for name in columns}


def _cut(data: bytes, fields: int) -> bytes:
    return b"".join(b" ".join(line.split()[:fields]) + b"\n" for line in data.splitlines())
