"""Looking up original and new IDs of one type in its ID map, without holding it in memory."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.chunked.id_converter import Ids
from partition_ops.chunked.table_files import PARQUET_BATCH, parquet_file
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import new_folder

COLUMNS = ["orig_id", "type_new_id"]


class IdMap:
    """Type-wise original and new IDs of one type, each by the other, mapped from two files.

    Parquet cannot be mapped, so its columns are written into plain arrays once, batch by batch. The kernel
    reads from them what is looked up, and takes the memory back when it needs it.

    Args:
        path: The Parquet file.
        where: Its URI, for messages.
        count: Number of nodes or edges of the type in the output.
        folder: Where the two arrays go; 16 bytes of disk for each node or edge.
        dropped: Number of edges of the type in the input that validation has dropped.

    Attributes:
        orig: (count,) int64, original IDs by type-wise new ID.
        new: (count + dropped,) int64, type-wise new IDs by original ID; -1 if the edge was dropped.

    Raises:
        InvalidInputError: The file is damaged, or an ID is missing or there twice.

    Peak memory: 48 MiB beside what the kernel keeps of the files.
    """

    def __init__(self, path: Path, where: str, count: int, folder: Path, *, dropped: int = 0) -> None:
        self._where = where
        self._count = count
        self.orig: Ids = _array(folder / "orig.npy", count)
        self.new: Ids = _array(folder / "new.npy", count + dropped)
        with parquet_file(path, where) as file:
            self._read(file)
        self._invert()

    def _read(self, file: pq.ParquetFile) -> None:
        missing = [column for column in COLUMNS if column not in file.schema_arrow.names]
        if missing or file.metadata.num_rows != self._count:
            raise self._broken(f"{file.metadata.num_rows} rows of {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(batch_size=PARQUET_BATCH, columns=COLUMNS):
            orig, new = (batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS)
            self._check(orig, len(self.new))
            self._check(new, self._count)
            self.orig[new] = orig
        if self._count and min(block.min() for block in _blocks(self.orig)) < 0:
            raise self._broken("a type_new_id that is there twice")

    def _invert(self) -> None:
        for index, orig in enumerate(_blocks(self.orig)):
            first = index * PARQUET_BATCH
            self.new[orig] = np.arange(first, first + len(orig))
        # an original ID that is there twice leaves fewer entries than there are IDs
        if sum(np.count_nonzero(block >= 0) for block in _blocks(self.new)) != self._count:
            raise self._broken("an orig_id that is there twice")

    def _check(self, ids: Any, end: int) -> None:
        if ids.dtype != np.int64 or (len(ids) and (ids.min() < 0 or ids.max() >= end)):
            raise self._broken(f"{ids.dtype} values outside the range")

    def _broken(self, found: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._where} is not the ID map that the partition config goes with",
            found=found,
            expected=f"{self._count} rows of {' and '.join(COLUMNS)}, int64, each ID once",
            remedy="Export the ID maps again: partition-ops idmap export.",
        )


class IdMaps:
    """The ID maps of an output that have been asked for, below one folder for temporary files.

    The folder is made with the first map, and goes with `close`, at the latest when the interpreter exits.

    Args:
        output: Root of the output.
    """

    def __init__(self, output: Store) -> None:
        self._output = output
        self._folder: Path | None = None
        self._maps: dict[str, IdMap] = {}

    def get(self, key: str, count: int, *, dropped_key: str | None = None) -> IdMap:
        """Return the ID map of a type.

        Args:
            key: Its Parquet file.
            count: Number of nodes or edges of the type in the output.
            dropped_key: Key of the file with the edges that validation dropped, if there is one.
        """
        if key not in self._maps:
            path, where = self._output.local_copy(key), self._output.uri_of(key)
            # a number as its name: that of a type may be too long with what is before it
            folder = self._temporary() / str(len(self._maps))
            self._maps[key] = IdMap(path, where, count, folder, dropped=self._rows(dropped_key))
        return self._maps[key]

    def close(self) -> None:
        self._maps.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _rows(self, key: str | None) -> int:
        if key is None or not self._output.exists(key):
            return 0
        with parquet_file(self._output.local_copy(key), self._output.uri_of(key)) as file:
            return int(file.metadata.num_rows)

    def _temporary(self) -> Path:
        if self._folder is None:
            self._folder = new_folder()
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def _array(path: Path, count: int) -> Ids:
    """Create a mapped array of -1; an empty file cannot be mapped."""
    if count == 0:
        return np.empty(0, np.int64)
    path.parent.mkdir(parents=True, exist_ok=True)
    array: Ids = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(count,))
    for block in _blocks(array):
        block[:] = -1
    return array


def _blocks(array: Ids) -> Iterator[Ids]:
    """Yield views of consecutive parts of an array."""
    for begin in range(0, len(array), PARQUET_BATCH):
        yield array[begin : begin + PARQUET_BATCH]
