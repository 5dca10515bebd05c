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
    value_types = "`row`, a number from 0, and `value`: a number, a text, or a list of numbers"
    errors = (ValueError,)  # by numpy, for a file that is damaged or has objects

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
        if rows.dtype == np.float16:  # which engines do not have
            kind = pa.float32()
        else:
            kind = (
                pa.from_numpy_dtype(rows.dtype.newbyteorder("=")) if rows.dtype.kind != "U" else pa.string()
            )
        schema = pa.schema([(ROW, pa.int64()), (VALUE, kind if rows.ndim == 1 else pa.list_(kind))])
        return self.write_parquet(schema, _batches(rows, schema), columns)


def _batches(rows: np.ndarray, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    step = max(BLOCK_BYTES // max(rows[:1].nbytes, 1), 1)
    for begin in range(0, len(rows), step):
        block = np.ascontiguousarray(rows[begin : begin + step])
        block = (
            block.astype(np.float32)
            if block.dtype == np.float16
            else block.astype(block.dtype.newbyteorder("="))
        )
        value = pa.array(block.reshape(-1))
        if rows.ndim > 1:
            offsets = np.arange(len(block) + 1, dtype=np.int32) * rows.shape[1]
            value = pa.ListArray.from_arrays(pa.array(offsets), value)
        numbers = pa.array(np.arange(begin, begin + len(block)))
        yield pa.RecordBatch.from_arrays([numbers, value], schema=schema)


SOURCE = NpySource
