"""Files with one row for each node or edge of a type: ``.npy``, ``.pt`` and Parquet."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.graph.feature_files import read_numpy, read_parquet
from partition_ops.graph.tables import first_sentence
from partition_ops.storage import Store

Rows = npt.NDArray[Any]
SUFFIXES = (".npy", ".pt", ".parquet")
BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class RowFile:
    """A file in a store."""

    store: Store
    key: str

    @property
    def where(self) -> str:
        return self.store.uri_of(self.key)

    @property
    def suffix(self) -> str:
        """What the file is, by its name.

        Raises:
            UsageError: It is none of `SUFFIXES`.
        """
        suffix = PurePosixPath(self.key).suffix
        if suffix not in SUFFIXES:
            raise UsageError(
                "A file name does not say its format", found=repr(self.key), expected=" or ".join(SUFFIXES)
            )
        return suffix

    def open(self) -> Rows:
        """(rows, ...) array; mapped from ``.npy`` and ``.pt``, read whole from Parquet.

        Raises:
            InvalidInputError: The file is missing or damaged, or holds no single array of numbers.
        """
        path = self.store.local_copy(self.key)
        if self.suffix == ".npy":
            rows = read_numpy(path, self.where)
        else:
            rows = _read_torch(path, self.where) if self.suffix == ".pt" else read_parquet(path, self.where)
        if rows.ndim == 0 or rows.dtype.kind not in "biufc":
            raise InvalidInputError(
                f"{self.where} holds no rows of numbers", found=f"{rows.dtype} of shape {rows.shape}"
            )
        return rows

    @contextmanager
    def create(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Iterator[Rows]:
        """An array to fill, mapped from a temporary file; the file appears when the context ends well."""
        suffix = self.suffix
        with self.store.create(self.key) as new, tempfile.TemporaryDirectory() as folder:
            mapped = new.path if suffix == ".npy" else Path(folder) / "rows.npy"
            rows = np.lib.format.open_memmap(mapped, "w+", dtype, tuple(shape))
            yield rows
            rows.flush()
            if suffix == ".pt":
                _write_torch(rows, new.path)
            elif suffix == ".parquet":
                _write_parquet(rows, new.path)


def rows_at_once(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Rows of a batch of `BATCH_BYTES`."""
    return max(1, BATCH_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:]))))


def _read_torch(path: Path, where: str) -> Rows:
    import torch

    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise InvalidInputError(f"{where} cannot be read as .pt: {first_sentence(error)}") from error
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        raise InvalidInputError(f"{where} holds no dense tensor", found=type(tensor).__name__)
    if tensor.dtype is torch.bfloat16:
        raise InvalidInputError(
            f"{where} has a dtype that NumPy has not", found="bfloat16", remedy="Save it as float32."
        )
    rows: Rows = tensor.detach().numpy()
    return rows


def _write_torch(rows: Rows, path: Path) -> None:
    import torch

    with path.open("wb") as stream:  # torch refuses a path whose name begins with a dot
        torch.save(torch.from_numpy(rows), stream)


def _write_parquet(rows: Rows, path: Path) -> None:
    step = rows_at_once(rows.shape, rows.dtype)
    with pq.ParquetWriter(path, _table(rows[:0]).schema) as writer:
        for begin in range(0, len(rows), step):
            writer.write_table(_table(rows[begin : begin + step]))


def _table(rows: Rows) -> pa.Table:
    """One column ``value`` of numbers or of fixed-size lists of them."""
    column = pa.array(np.ascontiguousarray(rows).reshape(-1))
    for width in reversed(rows.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, width)
    return pa.table({"value": column})
