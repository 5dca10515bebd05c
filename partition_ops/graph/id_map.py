"""Looking up original and new IDs of one type in its ID map, without holding it in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError
from partition_ops.graph.id_values import Ids
from partition_ops.graph.tables import PARQUET_BATCH, parquet_file
from partition_ops.storage import Store

COLUMNS = ["orig_id", "type_new_id"]


class IdMap:
    """Type-wise original and new IDs of one type, each by the other, mapped from two files.

    Parquet cannot be mapped, so its columns are written into plain arrays once, batch by batch. The kernel
    reads from them what is looked up, and takes the memory back when it needs it.

    Args:
        path: The Parquet file.
        where: Its URI, for messages.
        count: Number of nodes or edges of the type.
        folder: Where the two arrays go; 16 bytes of disk for each node or edge.

    Raises:
        InvalidInputError: The file is damaged, or is no bijection on ``[0, count)``.

    Peak memory: 48 MiB beside what the kernel keeps of the files.
    """

    def __init__(self, path: Path, where: str, count: int, folder: Path) -> None:
        self._where = where
        self._count = count
        self.orig: Ids = _array(folder / "orig.npy", count)
        self.new: Ids = _array(folder / "new.npy", count)
        with parquet_file(path, where) as file:
            self._fill(file)

    def _fill(self, file: pq.ParquetFile) -> None:
        missing = [column for column in COLUMNS if column not in file.schema_arrow.names]
        if missing or file.metadata.num_rows != self._count:
            raise self._broken(f"{file.metadata.num_rows} rows of {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(batch_size=PARQUET_BATCH, columns=COLUMNS):
            orig, new = (self._checked(batch.column(name).to_numpy(zero_copy_only=False)) for name in COLUMNS)
            self.orig[new] = orig
            self.new[orig] = new
        # each direction has as many entries as there are IDs: a hole means that an ID was there twice
        for begin in range(0, self._count, PARQUET_BATCH):
            if min(ids[begin : begin + PARQUET_BATCH].min() for ids in (self.orig, self.new)) < 0:
                raise self._broken("an ID that is there twice")

    def _checked(self, ids: Any) -> Ids:
        if ids.dtype != np.int64 or (len(ids) and (ids.min() < 0 or ids.max() >= self._count)):
            raise self._broken(f"{ids.dtype} values outside the range")
        checked: Ids = ids
        return checked

    def _broken(self, found: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._where} is not the ID map that the partition config goes with",
            found=found,
            expected=f"{self._count} rows of {' and '.join(COLUMNS)}, int64, each ID once",
            remedy="Export the ID maps again: partition-ops idmap.",
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

    def get(self, key: str, count: int) -> IdMap:
        """The ID map of the type whose Parquet file is ``key`` and that has ``count`` nodes or edges."""
        if key not in self._maps:
            path, where = self._output.local_copy(key), self._output.uri_of(key)
            # a number as its name: that of a type may be too long with what is before it
            self._maps[key] = IdMap(path, where, count, self._temporary() / str(len(self._maps)))
        return self._maps[key]

    def close(self) -> None:
        self._maps.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _temporary(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="partition-ops-book-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def _array(path: Path, count: int) -> Ids:
    """A mapped array of -1; an empty file cannot be mapped."""
    if count == 0:
        return np.empty(0, np.int64)
    path.parent.mkdir(parents=True, exist_ok=True)
    array: Ids = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(count,))
    for begin in range(0, count, PARQUET_BATCH):
        array[begin : begin + PARQUET_BATCH] = -1
    return array
