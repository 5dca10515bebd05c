"""Rows of features by the IDs of a graph, out of the files of all partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.id_converter import InvalidIdError, check_range
from partition_ops.errors import TransientStorageError
from partition_ops.formats.dgl.array_places import ArrayPlace
from partition_ops.system.parallel import map_in_threads
from partition_ops.train.mapped import MappedFile, ResidentLimit
from partition_ops.train.pread import copy_rows, read_rows
from partition_ops.train.source import Ids

Rows = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
SMALL_BYTES = 1 << 20  # below which another thread is not worth it


class PartRows(Protocol):
    """The rows of one feature in one partition."""

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows.

        Args:
            rows: (n,) int64, their positions in the partition.
            places: (n,) int64, the row of ``out`` that each goes to.
            out: (…, bytes of a row) uint8, written to.
        """
        ...


class MappedRows:
    """Rows of an array in a mapped file.

    Args:
        file: The file, opened when a row is first asked for.
        place: Where the array is in it.
        resident: Watches over what is mapped.
    """

    def __init__(self, file: Callable[[], MappedFile], place: ArrayPlace, resident: ResidentLimit) -> None:
        self._open = file
        self._place = place
        self._resident = resident
        self._table: Bytes | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        if self._table is None:
            shape = (self._place.shape[0], self._place.row_bytes)
            self._table = self._open().array(self._place.offset, np.uint8, shape)
        table = self._table
        if self._resident.limit is None:
            copy_rows(table, rows, places, out)
            return
        order = np.argsort(rows)  # in the order of the file, rows share pages
        rows, places = rows[order], places[order]
        step = self._resident.scattered(self._place.row_bytes)
        for begin in range(0, len(rows), step):
            copy_rows(table, rows[begin : begin + step], places[begin : begin + step], out)
            self._resident.check()


class FileRows:
    """Rows of an array in a file, read without mapping it: nothing of it stays in the process.

    Args:
        path: The file, found when a row is first asked for.
        place: Where the array is in it.
        where: Its URI, for messages.
    """

    def __init__(self, path: Callable[[], Path], place: ArrayPlace, where: str) -> None:
        self._path = path
        self._place = place
        self._where = where
        self._file: IO[bytes] | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        if self._file is None:
            self._file = self._path().open("rb", buffering=0)
        file, place = self._file.fileno(), self._place
        order = np.argsort(rows)
        failed = read_rows(file, place.offset, place.row_bytes, rows[order], places[order], out)
        if failed:
            raise TransientStorageError(
                f"{self._where} cannot be read any more",
                found=f"{failed} of {len(rows)} rows missing",
                remedy="Open the graph again: the file has changed.",
            )


@dataclass(frozen=True)
class Locator:
    """Finds the row of a node or an edge: the partition that owns it, and the position there.

    Attributes:
        ends: (partitions,) int64, the type-wise new ID behind the last one of each partition.
        new_ids: (IDs,) int64, type-wise new IDs by the IDs that are asked for, -1 where there is none;
            None where these are new IDs themselves.
        what: What the IDs are, for messages.
    """

    ends: Ids
    new_ids: Ids | None
    what: str

    def new(self, ids: Ids) -> Ids:
        """Type-wise new IDs.

        Raises:
            InvalidIdError: There is no such node or edge.
        """
        size = int(self.ends[-1]) if self.new_ids is None else len(self.new_ids)
        check_range(ids, size, self.what)
        if self.new_ids is None:
            return ids
        found = self.new_ids[ids]
        if found.size and found.min() < 0:
            wrong = int(ids[np.flatnonzero(found < 0)[0]])
            raise InvalidIdError(
                f"{self.what} {wrong} is not in what is open: in another partition, or dropped by validation"
            )
        return found

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """Partitions and positions in them."""
        new = self.new(ids)
        parts = np.searchsorted(self.ends, new, side="right").astype(np.int64)
        starts = np.concatenate([[0], self.ends[:-1]])
        return parts, new - starts[parts]


class FeatureRows:
    """A feature of a node type or edge type, by ID.

    Args:
        dtype: Of the values.
        shape: Of one row.
        locator: Where the row of an ID is.
        parts: The rows of each partition; None for a partition that is not open.

    Peak memory of `take`: its result, and 48 bytes a row.
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
        """The rows of some IDs.

        Args:
            ids: (n,) int64, type-wise, new or original as those of the graph; in any order, repeated or not.

        Returns:
            (n, ...) array of the feature's dtype.

        Raises:
            InvalidIdError: There is no such ID, or its partition is not open.
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
