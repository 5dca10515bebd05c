"""Write rows of numbers as text, with one space between the fields.

A loop of our own writes integers, several times as fast as pyarrow's CSV writer. numba compiles it on first
use and caches it beside this file, or in the user's cache folder if that place is not writable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.system.compilation import compiled

Columns = Sequence[npt.NDArray[np.int64]]
FIELDS_AT_ONCE = 1 << 21
POWERS = 10 ** np.arange(19, dtype=np.uint64)


def rows_at_once(attributes: int) -> int:
    """Return how many rows with so many attributes to write at a time, for about 20 MiB of text."""
    return max(1, FIELDS_AT_ONCE // (attributes + 4))


def text_rows(columns: Columns, attributes: Sequence[npt.NDArray[Any]] = ()) -> pa.Buffer:
    """Return rows of non-negative integers and of attributes as text.

    Args:
        columns: (n,) int64 each, none negative.
        attributes: (n, width) each, of numbers; written with as few digits as restore the number.

    Returns:
        The text, each row with its line end. Peak memory: the text and the columns once more.
    """
    if len(attributes):
        return _with_attributes(columns, attributes)
    numbers = np.stack([np.asarray(column, np.uint64) for column in columns])
    longest = sum(len(str(int(column.max(initial=0)))) + 1 for column in numbers)
    text = np.empty(longest * numbers.shape[1], np.uint8)
    size = _write_rows(numbers, POWERS, text)
    return pa.py_buffer(text[:size])


def _with_attributes(columns: Columns, attributes: Sequence[npt.NDArray[Any]]) -> pa.Buffer:
    arrays = [*columns, *(block[:, i] for block in attributes for i in range(block.shape[1]))]
    table = pa.table([_writable(array) for array in arrays], names=list(map(str, range(len(arrays)))))
    sink = pa.BufferOutputStream()
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    pa_csv.write_csv(table, sink, options)
    return sink.getvalue()


def _writable(array: npt.NDArray[Any]) -> pa.Array:
    """Convert to what pyarrow can write: booleans to 0 and 1, 16-bit floating-point numbers to 32 bits."""
    other = {np.dtype(np.bool_): np.uint8, np.dtype(np.float16): np.float32}.get(array.dtype, array.dtype)
    return pa.array(np.ascontiguousarray(array, other))


@compiled
def _write_rows(numbers: Any, powers: Any, text: Any) -> int:
    """Write (columns, rows) uint64 to ``text``; return the number of bytes."""
    at = 0
    for row in range(numbers.shape[1]):
        for column in range(numbers.shape[0]):
            value = numbers[column, row]
            digits = 1
            while digits < 19 and value >= powers[digits]:
                digits += 1
            for place in range(at + digits - 1, at - 1, -1):
                rest = value // np.uint64(10)
                text[place] = np.uint8(48) + np.uint8(value - rest * np.uint64(10))
                value = rest
            at += digits
            text[at] = 32
            at += 1
        text[at - 1] = 10
    return at
