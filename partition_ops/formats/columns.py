"""Columns of a partition: `Column` is an array to be written, `StoredArray` one inside a stored file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

BLOCK_BYTES = 1 << 20  # a block of this size stays in the cache of the core that made it

Array = npt.NDArray[Any]
Some = TypeVar("Some")


@dataclass(frozen=True)
class Column:
    """An array that is produced block by block, so that it need not fit in memory."""

    dtype: np.dtype[Any]  # its NumPy dtype: integers, floating-point numbers or booleans
    shape: tuple[int, ...]  # its whole shape
    # yields the rows in order, about 1 MiB at a time; can be called several times
    blocks: Callable[[], Iterator[Array]]

    @property
    def nbytes(self) -> int:
        """Size of the whole array in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @classmethod
    def of(cls, array: Array) -> Column:
        """Return a column of an array in memory or in a mapped file."""

        def blocks() -> Iterator[Array]:
            for begin, end in row_blocks(len(array), array.nbytes):
                yield array[begin:end]

        return cls(array.dtype, array.shape, blocks)

    @classmethod
    def constant(cls, value: int, dtype: Any, rows: int) -> Column:
        """Return a column with the same number in every row."""

        def blocks() -> Iterator[Array]:
            for begin, end in row_blocks(rows, rows * np.dtype(dtype).itemsize):
                yield np.full(end - begin, value, dtype)

        return cls(np.dtype(dtype), (rows,), blocks)

    @classmethod
    def ones_first(cls, ones: int, rows: int) -> Column:
        """Return a uint8 column of ones, then zeros."""
        return cls.joined([cls.constant(1, np.uint8, ones), cls.constant(0, np.uint8, rows - ones)])

    @classmethod
    def joined(cls, pieces: Sequence[Column]) -> Column:
        """Return a column of the rows of several columns of one dtype, one after the other."""

        def blocks() -> Iterator[Array]:
            for piece in pieces:
                yield from piece.blocks()

        return cls(pieces[0].dtype, (sum(p.shape[0] for p in pieces), *pieces[0].shape[1:]), blocks)

    @classmethod
    def count(cls, first: int, rows: int) -> Column:
        """Return a column of the int64 numbers from ``first``."""

        def blocks() -> Iterator[Array]:
            for begin, end in row_blocks(rows, rows * 8):
                yield np.arange(first + begin, first + end)

        return cls(np.dtype(np.int64), (rows,), blocks)


def row_blocks(rows: int, nbytes: int) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of rows of about 1 MiB each.

    Args:
        rows: Number of rows of the array.
        nbytes: Size of the array in bytes.
    """
    step = max(1, BLOCK_BYTES * rows // max(nbytes, 1))
    for begin in range(0, rows, step):
        yield begin, min(begin + step, rows)


@dataclass(frozen=True)
class StoredArray:
    """An array in a stored file: raw little-endian bytes in C order, which can be mapped or range-read."""

    key: str  # key of the file below the root of the output
    offset: int  # position of the first byte in the file; need not be aligned
    dtype: np.dtype[Any]  # dtype of the array
    shape: tuple[int, ...]  # shape of the array

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array."""
        return self.shape[0] * self.row_bytes if self.shape else self.dtype.itemsize

    def map(self, output: Store) -> Array:
        """Return the array, read-only and mapped from the local copy of its file.

        Peak memory: pages of the file as they are touched. From S3 the whole file is fetched once.

        Raises:
            InvalidInputError: There is no such file, or it ends before the array does.
        """
        path = output.local_copy(self.key)
        size, end = path.stat().st_size, self.offset + self.nbytes
        if end > size:
            raise InvalidInputError(
                f"{output.uri_of(self.key)} is cut short",
                found=f"{size:,} bytes",
                expected=f"{end:,}, as its header says",
            )
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        mapped = np.memmap(path, np.uint8, "r", self.offset, (self.nbytes,))
        return mapped.view(self.dtype).reshape(self.shape)


class LazyColumns(Mapping[str, Column]):
    """Columns by name, each made when it is first asked for: the names alone cost nothing.

    Args:
        makers: Functions that make the columns, by name.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Column]]) -> None:
        self._makers = makers
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def group_of(column: str) -> str:
    """Return the group of a column: ``node_features`` for ``node_features/paper/feat``."""
    return column.partition("/")[0]


def in_group(columns: Mapping[str, Some], group: str) -> dict[str, Some]:
    """Return the columns of one group by their names inside it: ``paper/feat`` for ``node_features``."""
    return {name: columns[f"{group}/{name}"] for name in names_in_group(columns, group)}


def names_in_group(columns: Iterable[str], group: str) -> list[str]:
    """Return the names of the columns of one group inside it."""
    prefix = f"{group}/"
    return [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
