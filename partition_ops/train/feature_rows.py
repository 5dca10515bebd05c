"""Rows of a feature by ID, from mapped files, by system calls, or by range requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import types
from numpy.lib.stride_tricks import sliding_window_view

from partition_ops.chunked.id_converter import InvalidIdError, check_range
from partition_ops.errors import TransientStorageError
from partition_ops.formats.columns import StoredArray
from partition_ops.system.compilation import compiled
from partition_ops.system.parallel import map_in_threads
from partition_ops.train.block_cache import BlockCache
from partition_ops.train.mapped_files import MappedFile, ResidentLimit
from partition_ops.train.output_files import Ids

Rows = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
SMALL_BYTES = 1 << 20  # below this size, several threads are slower

_pread: Any = types.ExternalFunction(
    "pread", types.intp(types.int32, types.voidptr, types.uintp, types.int64)
)


@dataclass(frozen=True)
class Locator:
    """Finds the row of a node or an edge: the partition that owns it, and the position there.

    Attributes:
        ends: (partitions,) int64, the type-wise new ID after the last one of each partition.
        new_ids: (IDs,) int64, type-wise new IDs by ID, -1 if there is none; None if the IDs are new IDs.
        what: What the IDs are, for messages.
    """

    ends: Ids
    new_ids: Ids | None
    what: str

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """Return the partition of each ID and the row there, (n,) int64.

        Raises:
            InvalidIdError: There is no such node or edge.
        """
        new = self._new(ids)
        parts = np.searchsorted(self.ends, new, side="right").astype(np.int64)
        starts = np.concatenate([[0], self.ends[:-1]])
        return parts, new - starts[parts]

    def _new(self, ids: Ids) -> Ids:
        """Return type-wise new IDs."""
        size = int(self.ends[-1]) if self.new_ids is None else len(self.new_ids)
        check_range(ids, size, self.what)
        if self.new_ids is None:
            return ids
        found = self.new_ids[ids]
        if found.size and found.min() < 0:
            wrong = int(ids[np.flatnonzero(found < 0)[0]])
            raise InvalidIdError(
                f"{self.what} {wrong} is not there: its partition is not open, or validation dropped it"
            )
        return found


class PartRows(Protocol):
    """The rows of one feature in one partition."""

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows.

        Args:
            rows: (n,) int64, their positions in the partition.
            places: (n,) int64, the row of ``out`` that each goes to.
            out: (…, bytes of a row) uint8, written.
        """
        ...


class FeatureRows:
    """A feature of a node type or edge type, by ID.

    Args:
        dtype: Dtype of the values.
        shape: Shape of one row.
        locator: Finds the row of an ID.
        parts: The rows of each partition; None for a partition that is not open.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        locator: Locator,
        parts: Sequence[PartRows | None],
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.locator = locator
        self._parts = parts

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def take(self, ids: Ids) -> Rows:
        """Return the rows of some IDs.

        Args:
            ids: (n,) int64, type-wise, new or original as the IDs of the graph; in any order, also repeated.

        Returns:
            (n, ...) array of the feature's dtype.

        Raises:
            InvalidIdError: There is no such ID, or its partition is not open.

        Peak memory: the result, and 48 bytes a row.
        """
        parts, rows = self.locator.find(ids)
        found = np.empty((len(ids), self.row_bytes), np.uint8)

        def read(part: int) -> None:
            places = np.flatnonzero(parts == part)
            self._part(part).read(rows[places], places, found)

        if found.size:
            present = np.flatnonzero(np.bincount(parts)).tolist()
            threads = found.size > SMALL_BYTES and len(present) > 1
            for _ in map_in_threads(read, present) if threads else map(read, present):
                pass
        return found.reshape(-1).view(self.dtype).reshape(len(ids), *self.shape)

    def _part(self, part: int) -> PartRows:
        found = self._parts[part]
        if found is None:
            raise InvalidIdError(f"{self.locator.what} is in partition {part}, which is not open")
        return found


class MappedRows:
    """Rows of an array in a mapped file.

    Args:
        file: Returns the file; called when a row is first read.
        array: The array in it.
        resident: Limits the resident pages.
    """

    def __init__(self, file: Callable[[], MappedFile], array: StoredArray, resident: ResidentLimit) -> None:
        self._file = file
        self._array = array
        self._resident = resident
        self._table: Bytes | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        if self._table is None:
            shape = (self._array.shape[0], self._array.row_bytes)
            self._table = self._file().array(self._array.offset, np.uint8, shape)
        table = self._table
        if self._resident.limit is None:
            _copy_rows(table, rows, places, out)
            return
        order = np.argsort(rows)  # in the order of the file, rows share pages
        rows, places = rows[order], places[order]
        step = self._resident.scattered(self._array.row_bytes)
        for begin in range(0, len(rows), step):
            _copy_rows(table, rows[begin : begin + step], places[begin : begin + step], out)
            self._resident.check()


class FileRows:
    """Rows of an array in a file, read by system calls: no page of it stays in the process.

    Args:
        path: Returns the file; called when a row is first read.
        array: The array in it.
        where: Its URI, for messages.
    """

    def __init__(self, path: Callable[[], Path], array: StoredArray, where: str) -> None:
        self._path = path
        self._array = array
        self._where = where
        self._file: IO[bytes] | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        if self._file is None:
            self._file = self._path().open("rb", buffering=0)
        file, array = self._file.fileno(), self._array
        order = np.argsort(rows)
        failed = _read_rows(file, array.offset, array.row_bytes, rows[order], places[order], out)
        if failed:
            raise TransientStorageError(
                f"{self._where} cannot be read any more",
                found=f"{failed} of {len(rows)} rows missing",
                remedy="Open the graph again: the file has changed.",
            )


class RangeRows:
    """Rows of an array in a stored object, by range requests.

    Args:
        cache: Fetches blocks of objects and keeps them.
        size: Bytes of the object.
        array: The array in it.
    """

    def __init__(self, cache: BlockCache, size: int, array: StoredArray) -> None:
        self._cache = cache
        self._size = size
        self._array = array

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        width, block = self._array.row_bytes, self._cache.block_bytes
        different, inverse = np.unique(rows, return_inverse=True)
        starts = self._array.offset + different * width
        first, last = starts // block, (starts + width - 1) // block
        steps = range(int((last - first).max()) + 1)
        wanted = np.unique(np.concatenate([(first + step)[first + step <= last] for step in steps]))
        found = self._cache.read(self._array.key, self._size, wanted.tolist())
        # the blocks of a row follow each other here too
        joined = np.frombuffer(b"".join(found[number] for number in wanted.tolist()), np.uint8)
        begins = np.searchsorted(wanted, first) * block + starts % block
        out[places] = sliding_window_view(joined, width)[begins][inverse]


@compiled
def _read_rows(file: int, offset: int, width: int, rows: Ids, places: Ids, out: Bytes) -> int:
    """Read rows of a table in a file, and return the number of rows that could not be read completely.

    Args:
        file: Descriptor of the file.
        offset: Position of row 0.
        width: Bytes of a row.
        rows: (n,) int64, positions of the rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written.
    """
    failed = 0
    for i in range(len(rows)):
        if _pread(file, out[places[i]].ctypes, width, offset + rows[i] * width) != width:
            failed += 1
    return failed


@compiled
def _copy_rows(table: Bytes, rows: Ids, places: Ids, out: Bytes) -> None:
    """Copy rows of a mapped table.

    Args:
        table: (…, width) uint8.
        rows: (n,) int64, positions of the rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written.
    """
    for i in range(len(rows)):
        row, place = rows[i], places[i]
        for byte in range(table.shape[1]):
            out[place, byte] = table[row, byte]
