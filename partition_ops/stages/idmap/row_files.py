"""Files with one row for each node or edge of a type: ``.npy``, ``.pt`` and Parquet."""

from __future__ import annotations

import math
import pickle
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.feature_formats import parquet_blocks, parquet_layout, read_numpy, read_parquet
from partition_ops.chunked.table_files import first_sentence
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.idmap.string_ids import StringIds
from partition_ops.storage import Store
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.extras import check_installed
from partition_ops.system.mapped_files import new_array, new_npy
from partition_ops.system.temporary_folders import temporary_folder

Values = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
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
        """The suffix of its name, which is its format.

        Raises:
            UsageError: It is not one of `SUFFIXES`, or torch, which reads and writes ``.pt``, is missing.
        """
        suffix = PurePosixPath(self.key).suffix
        if suffix not in SUFFIXES:
            raise UsageError(
                "A file name has no known suffix", found=repr(self.key), expected=" or ".join(SUFFIXES)
            )
        if suffix == ".pt":
            check_installed(f"{self.where}, a file of torch,", "torch")
        return suffix

    def open(self) -> Values:
        """Open a file as a mapped (rows, ...) array; of Parquet, a temporary copy is mapped.

        Raises:
            InvalidInputError: The file is missing or damaged, or does not hold a single array of numbers.
        """
        path = self.store.local_copy(self.key)
        if self.suffix == ".npy":
            rows = read_numpy(path, self.where)
        else:
            rows = _read_torch(path, self.where) if self.suffix == ".pt" else _map_parquet(path, self.where)
        if rows.ndim == 0 or rows.dtype.kind not in "biufc":
            raise InvalidInputError(
                f"{self.where} has no rows of numbers", found=f"{rows.dtype} of shape {rows.shape}"
            )
        return rows

    @contextmanager
    def create(
        self, shape: Sequence[int], dtype: np.dtype[Any], ids: StringIds | None = None
    ) -> Iterator[Values]:
        """Yield a mapped array to fill; the file appears when the context ends without an error.

        Args:
            shape: Shape of the array.
            dtype: Its dtype.
            ids: Put beside the rows, in a column ``id``; only Parquet can hold them.

        Raises:
            UsageError: The file name has no known suffix, or the file is not Parquet and there are IDs.
            InvalidInputError: There are more or fewer IDs than rows.
        """
        suffix = self.suffix
        if ids is not None and suffix != ".parquet":
            raise UsageError(
                "Only Parquet holds IDs beside the rows", found=self.key, expected="a name ending in .parquet"
            )
        with self.store.create(self.key) as new, temporary_folder() as folder:
            mapped = new.path if suffix == ".npy" else Path(folder) / "rows.npy"
            rows = new_npy(mapped, shape, dtype)
            yield rows
            if suffix == ".pt":
                import torch

                with new.path.open("wb") as stream:  # torch refuses a path whose name begins with a dot
                    torch.save(torch.from_numpy(rows), stream)
            elif suffix == ".parquet":
                _write_parquet(rows, new.path, ids)


def rows_at_once(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Return the number of rows of a batch of `BATCH_BYTES`."""
    return max(1, BATCH_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:]))))


def _read_torch(path: Path, where: str) -> Values:
    import torch

    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise InvalidInputError(f"{where} cannot be read as .pt: {first_sentence(error)}") from error
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        raise InvalidInputError(f"{where} holds no dense tensor", found=type(tensor).__name__)
    if tensor.dtype is torch.bfloat16:
        raise InvalidInputError(
            f"{where} has a dtype that NumPy does not have", found="bfloat16", remedy="Save it as float32."
        )
    rows: Values = tensor.detach().numpy()
    return rows


def _map_parquet(path: Path, where: str) -> Values:
    """Copy the values batch by batch into an unnamed file and map it, so that they need no memory."""
    dtype, shape, count = parquet_layout(path, where)
    step = rows_at_once((count, *shape), dtype)
    if count <= step:
        return read_parquet(path, where)
    with tempfile.TemporaryFile() as file, explain_full_disk(Path(tempfile.gettempdir())):
        rows = new_array(file, (count, *shape), dtype)
    begin = 0
    for block in parquet_blocks(path, where, step):
        if block.size != len(block) * math.prod(shape):  # written flat, with its shape beside it
            return read_parquet(path, where)
        rows[begin : begin + len(block)] = block.reshape(len(block), *shape)
        begin += len(block)
    return rows


def _write_parquet(rows: Values, path: Path, ids: StringIds | None) -> None:
    """Write the column ``value``, and if there are IDs, the column ``id`` before it."""
    step, schema = rows_at_once(rows.shape, rows.dtype), _table(rows[:0]).schema
    if ids is None:
        with pq.ParquetWriter(path, schema) as writer:
            for begin in range(0, len(rows), step):
                writer.write_table(_table(rows[begin : begin + step]))
        return
    begin, schema = 0, pa.schema([("id", pa.string()), *schema])
    with pq.ParquetWriter(path, schema) as writer:
        for block in ids.blocks():
            for first in range(0, len(block), step):
                names = block.slice(first, step)
                _check_rows(begin + len(names), len(rows), ids, more=True)
                values = _table(rows[begin : begin + len(names)]).column("value")
                writer.write_table(pa.table([names.cast(pa.string()), values], schema=schema))
                begin += len(names)
    _check_rows(begin, len(rows), ids, more=False)


def _check_rows(found: int, expected: int, ids: StringIds, *, more: bool) -> None:
    if found > expected or (found < expected and not more):
        raise InvalidInputError(
            f"{ids.store.uri_of(ids.keys[0])} has {'more' if more else 'fewer'} IDs than there are rows",
            found=f"at least {found} IDs" if more else f"{found} IDs",
            expected=f"{expected}, one for each node or edge of the type in the input",
        )


def _table(rows: Values) -> pa.Table:
    """Return a table with the column ``value``: numbers, or fixed-size lists of numbers."""
    column = pa.array(np.ascontiguousarray(rows).reshape(-1))
    for width in reversed(rows.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, width)
    return pa.table({"value": column})


@dataclass(frozen=True)
class Rows:
    """Arrays end to end."""

    arrays: Sequence[npt.NDArray[Any]]  # (rows, ...) each, of one dtype and shape of a row
    files: Sequence[RowFile]  # where they come from

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays[0].dtype.newbyteorder("=")

    @property
    def starts(self) -> list[int]:
        """First row of each array, and the number of rows."""
        return list(accumulate(map(len, self.arrays), initial=0))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.starts[-1], *self.arrays[0].shape[1:])

    def between(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return consecutive rows."""
        pieces = [
            array[max(0, begin - start) : max(0, end - start)]
            for array, start in zip(self.arrays, self.starts, strict=False)
        ]
        return np.concatenate(pieces)

    def take(self, ids: Ids) -> npt.NDArray[Any]:
        """Return rows in any order."""
        taken = np.empty((len(ids), *self.shape[1:]), self.dtype)
        for array, (begin, end) in zip(self.arrays, pairwise(self.starts), strict=True):
            here = (ids >= begin) & (ids < end)
            taken[here] = array[ids[here] - begin]
        return taken


def open_rows(inputs: Sequence[RowFile]) -> Rows:
    """Open files whose rows follow each other, in the given order.

    Raises:
        UsageError: A file name has no known suffix, or the files are not in the order of their numbers.
        InvalidInputError: A file cannot be read, or has another dtype or shape of a row than the first.
    """
    _check_order([file.where for file in inputs])
    arrays = [file.open() for file in inputs]
    for file, array in zip(inputs, arrays, strict=True):
        if array.dtype != arrays[0].dtype or array.shape[1:] != arrays[0].shape[1:]:
            raise InvalidInputError(
                f"{file.where} has other rows than {inputs[0].where}",
                found=f"{array.dtype} rows of shape {array.shape[1:]}",
                expected=f"{arrays[0].dtype} rows of shape {arrays[0].shape[1:]}",
            )
    return Rows(arrays, inputs)


def _check_order(names: Sequence[str]) -> None:
    """Reject the order that a shell gives to ``*``: part10 before part2."""
    numbers = [[int(digits) for digits in re.findall(r"\d+", name)] for name in names]
    stems = {re.sub(r"\d+", "0", name) for name in names}
    if len(stems) == 1 and numbers != sorted(numbers):
        raise UsageError(
            "The input files are not in the order of their numbers",
            found=", ".join(name.rpartition("/")[2] for name in names[:12]),
            remedy="Give them in the order of the partitions.",
        )
