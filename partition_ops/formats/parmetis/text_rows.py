"""Write rows of numbers as text, with one space between the fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

Columns = Sequence[npt.NDArray[np.int64]]
FIELDS_AT_ONCE = 1 << 21
WRITTEN_AS = {np.dtype(np.bool_): np.uint8, np.dtype(np.float16): np.float32}  # what pyarrow can write


def rows_at_once(attributes: int) -> int:
    """Return how many rows with so many attributes to write at a time, for about 20 MiB of text."""
    return max(1, FIELDS_AT_ONCE // (attributes + 4))


def text_rows(columns: Columns, attributes: Sequence[npt.NDArray[Any]] = ()) -> pa.Buffer:
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
