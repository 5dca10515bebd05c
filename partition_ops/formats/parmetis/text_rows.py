"""Rows of numbers as text, one space between the fields.

Integers are written by a loop of our own, several times as fast as pyarrow's CSV writer; compiled by numba on
first use and kept on disk beside this file, or in the user's cache folder where that one cannot be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
from numba import njit

Columns = Sequence[npt.NDArray[np.int64]]
FIELDS_AT_ONCE = 1 << 21
POWERS = 10 ** np.arange(19, dtype=np.uint64)


def rows_at_once(attributes: int) -> int:
    """How many rows with so many attributes to write at a time, for some 20 MiB of text."""
    return max(1, FIELDS_AT_ONCE // (attributes + 4))


def text_rows(columns: Columns, attributes: Sequence[npt.NDArray[Any]] = ()) -> pa.Buffer:
    """Rows of non-negative integers, and what follows them.

    Args:
        columns: (n,) int64 each, none negative.
        attributes: (n, width) each, of numbers; as few digits as give the same number back.

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
    """As pyarrow writes it to text: booleans as 0 and 1, and 16-bit floating-point numbers in 32."""
    other = {np.dtype(np.bool_): np.uint8, np.dtype(np.float16): np.float32}.get(array.dtype, array.dtype)
    return pa.array(np.ascontiguousarray(array, other))


@njit(cache=True, nogil=True)
def _write_rows(numbers: Any, powers: Any, text: Any) -> int:
    """Write (columns, rows) uint64 to ``text``; how many bytes that were."""
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
