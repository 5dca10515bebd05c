"""A slow second look at a CSV of edges that pyarrow could not convert: every bad row, by what is wrong."""

from __future__ import annotations

import csv
from typing import Any

from partition_ops.graph.metadata import FileFormat
from partition_ops.graph.tables import csv_layout
from partition_ops.storage import Store
from partition_ops.validate.defects import EXAMPLES

BadRows = dict[str, tuple[int, list[dict[str, Any]]]]


def scan_bad_rows(source: Store, key: str, file_format: FileFormat) -> tuple[int, BadRows]:
    """Count the rows that are no edges.

    Args:
        source: The graph's root.
        key: The file.
        file_format: How it is written.

    Returns:
        The number of rows, and by check how many are bad with the first examples. Rows are counted from
        0, lines of the file from 1.
    """
    path = source.local_copy(key)
    _, header = csv_layout(path, file_format, source.uri_of(key))
    bad: BadRows = {}
    row = -1 - int(header)
    with path.open(newline="", encoding="utf-8", errors="replace") as stream:
        lines = csv.reader(_without_nul(stream), delimiter=file_format.delimiter)
        for fields in lines:
            row += bool(fields)
            check = _wrong(fields) if fields and row >= 0 else None
            if check is None:
                continue
            count, examples = bad.get(check, (0, []))
            if len(examples) < EXAMPLES:
                text = file_format.delimiter.join(fields)[:100]
                place = f"row {row} (line {lines.line_num}) of {source.uri_of(key)}"
                examples.append(
                    {"file": key, "row": row, "line": lines.line_num, "sentence": f"{text!r} in {place}"}
                )
            bad[check] = count + 1, examples
    return row + 1, bad


def _without_nul(lines: Any) -> Any:
    """Python's csv module refuses NUL characters; they are no part of a number either."""
    return (line.replace("\0", "\ufffd") for line in lines)


def _wrong(fields: list[str]) -> str | None:
    if len(fields) != 2:
        return "wrong_column_rows"
    if not all(field.strip() for field in fields):
        return "null_ids"
    return None if all(_is_integer(field) for field in fields) else "non_integer_rows"


def _is_integer(field: str) -> bool:
    try:
        return -(2**63) <= int(field) < 2**63 and "_" not in field
    except ValueError:
        return False
