"""NumPy files: a row for each row of a vector or a matrix, with its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.table_source import FoundFile, TableSource

ROW, VALUE = "row", "value"
BLOCK_BYTES = 16 << 20


class NpySource(TableSource):
    name, title = "npy", "NumPy, a vector or a matrix"
    suffixes = (".npy",)
    not_inferred = "its rows have no keys; join it by row in a query, FROM … JOIN …"
    value_types = "`row`, a number from 0, and `value`: a number, a text, or a list of numbers"
    errors = (ValueError, EOFError)  # by numpy, for a file that is damaged, has objects or is empty

    def columns(self, file: FoundFile) -> list[str]:
        return [ROW, VALUE]

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        rows = np.load(file.path, mmap_mode="r", allow_pickle=False)
        if (
            rows.ndim not in (1, 2)
            or rows.dtype.kind not in "biufU"
            or (rows.dtype.kind == "U" and rows.ndim > 1)
        ):
            raise InvalidInputError(
                f"{self.about}{file.name} is not a table",
                found=f"{rows.dtype} of the shape {rows.shape}",
                expected="numbers of the shape (rows,) or (rows, width), or a vector of texts",
            )
        kind = type_of(rows.dtype)
        schema = pa.schema([(ROW, pa.int64()), (VALUE, kind if rows.ndim == 1 else pa.list_(kind))])
        return self.write_parquet(schema, _batches(rows, schema), columns)


def _batches(rows: np.ndarray, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    step = max(BLOCK_BYTES // max(rows[:1].nbytes, 1), 1)
    for begin in range(0, len(rows), step):
        block = rows[begin : begin + step]
        numbers = pa.array(np.arange(begin, begin + len(block)))
        yield pa.RecordBatch.from_arrays([numbers, values_of(block)], schema=schema)


def type_of(dtype: np.dtype) -> pa.DataType:
    """Return the type of numbers or texts; engines do not have float16."""
    if dtype.kind == "U":
        return pa.string()
    return pa.float32() if dtype == np.float16 else pa.from_numpy_dtype(dtype.newbyteorder("="))


def values_of(block: np.ndarray) -> pa.Array:
    """Return the rows of a vector as values, those of a matrix as lists."""
    dtype = np.dtype(np.float32) if block.dtype == np.float16 else block.dtype.newbyteorder("=")
    values = pa.array(np.ascontiguousarray(block, dtype).reshape(-1))
    if block.ndim == 1:
        return values
    offsets = np.arange(len(block) + 1, dtype=np.int32) * block.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), values)


SOURCE = NpySource
