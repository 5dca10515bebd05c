"""A slow second look at a CSV of edges that pyarrow could not convert: every bad row, by what is wrong."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.metadata import FileFormat
from partition_ops.chunked.table_files import csv_layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.defects import EXAMPLES
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]
INTEGER = re.compile(r"\s*(-?[0-9]{1,25}|0[xX][0-9a-fA-F]{1,16})\s*")  # what pyarrow takes for one
ROWS_AT_ONCE = 1 << 16


class BadRows:
    """Sorts the rows of a file into edges and what is none.

    Attributes:
        rows: How many rows there are, blank lines not counted; once `scan` is through.
        found: By check, how many rows are bad, with the first examples.
        complete: Whether the end of the file was reached.
    """

    def __init__(self, source: Store, chunk: EdgeChunk, file_format: FileFormat) -> None:
        self._source = source
        self._chunk = chunk
        self._format = file_format
        self.rows = 0
        self.complete = False
        self.found: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def scan(self) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Row, source and destination of every row that is an edge, block by block.

        Rows are counted from 0. A file that cannot be read even so ends the rows.
        """
        sound: list[tuple[int, int, int]] = []
        try:
            for line, fields in self._lines():
                check = _wrong(fields)
                if check is None:
                    sound.append((self.rows, _integer(fields[0]), _integer(fields[1])))
                else:
                    self._note(check, line, fields)
                self.rows += 1
                if len(sound) == ROWS_AT_ONCE:
                    yield _arrays(sound)
                    sound = []
            self.complete = True
        except (InvalidInputError, csv.Error):  # what the fast reader said is reported
            pass
        yield _arrays(sound)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Number from 1 and fields of every line that is not blank and no header."""
        path = self._source.local_copy(self._chunk.key)
        _, header = csv_layout(path, self._format, self._source.uri_of(self._chunk.key))
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
            lines = csv.reader(_without_nul(stream), delimiter=self._format.delimiter)
            for index, fields in enumerate(filter(None, lines)):
                if index >= int(header):
                    yield lines.line_num, fields

    def _note(self, check: str, line: int, fields: list[str]) -> None:
        count, examples = self.found.get(check, (0, []))
        if len(examples) < EXAMPLES:
            text = self._format.delimiter.join(fields)[:100]
            key = self._chunk.key
            place = f"row {self.rows} (line {line}) of {key}"
            where = {"file": key, "chunk": self._chunk.index, "row": self.rows, "line": line}
            examples.append({**where, "sentence": f"{text!r} in {place}"})
        self.found[check] = count + 1, examples


def _arrays(rows: list[tuple[int, int, int]]) -> tuple[Ids, Ids, Ids]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1].copy(), table[:, 2].copy()


def _without_nul(lines: Iterable[str]) -> Iterator[str]:
    """Python's csv module refuses NUL characters; they are no part of a number either."""
    return (line.replace("\0", "\ufffd") for line in lines)


def _wrong(fields: list[str]) -> str | None:
    if len(fields) != 2:
        return "wrong_column_rows"
    if not all(field.strip() for field in fields):
        return "null_ids"
    return None if all(_is_integer(field) for field in fields) else "non_integer_rows"


def _is_integer(field: str) -> bool:
    return INTEGER.fullmatch(field) is not None and -(2**63) <= _integer(field) < 2**63


def _integer(field: str) -> int:
    return int(field, 16 if "x" in field.lower() else 10)
