"""A slow second look at a text file that was refused, for the line to name."""

from __future__ import annotations

import csv
from pathlib import Path

from partition_ops.chunked.metadata import FileFormat
from partition_ops.chunked.table_files import VALUE

SHOWN = 100


def first_blank_line(path: Path) -> int | None:
    """Number from 1 of the first blank line, or None."""
    with path.open("rb") as stream:
        return next((number for number, line in enumerate(stream, 1) if not line.strip(b"\r\n")), None)


def passed_over(path: Path) -> str:
    """What to say of a blank line where rows are too few; nothing where there is none."""
    line = first_blank_line(path)
    return "" if line is None else f"; line {line} is blank, which is no row"


def bad_value(path: Path, file_format: FileFormat, columns: int, header: bool) -> str | None:
    """The first line that has not so many numbers, and its text; None where every line has.

    Blank lines are passed over, as by the reader.
    """
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        lines = csv.reader(stream, delimiter=file_format.delimiter)
        try:
            for index, fields in enumerate(filter(None, lines)):
                sound = len(fields) == columns and all(map(VALUE.fullmatch, fields))
                if not sound and index >= int(header):
                    text = file_format.delimiter.join(fields)
                    return f"{text[:SHOWN]!r} in line {lines.line_num}"
        except csv.Error as error:
            return f"line {lines.line_num}: {error}"
    return None
