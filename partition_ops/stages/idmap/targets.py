"""The files that an export of ID maps fills, partition by partition, without holding them in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.table_files import number_column

SCHEMA = pa.schema(
    [("orig_id", pa.int64()), ("new_id", pa.int64()), ("type_new_id", pa.int64()), ("part_id", pa.int32())]
)
# IDs that ascend within a partition: twenty times smaller than plain, and faster to write and to read
ENCODING = {
    "use_dictionary": ["part_id"],
    "column_encoding": dict.fromkeys(["orig_id", "new_id", "type_new_id"], "DELTA_BINARY_PACKED"),
}
ROWS = 1 << 20  # of a row group, and of what is in memory at a time
DROPPED = -1
Ids = npt.NDArray[np.int64]


class Target(Protocol):
    """A file that is filled while its context lasts, and appears when the context ends well.

    Several threads may append to it, each to a type of its own.
    """

    @contextmanager
    def opened(self, totals: Mapping[str, int]) -> Iterator[None]:
        """Open the file; ``totals`` has the number of nodes or edges of each type."""
        yield

    def append(self, type_name: str, orig_ids: Ids, begin: int, part: int) -> None:
        """Add what a partition owns of a type.

        Args:
            type_name: The type; a target passes over those that are not its own.
            orig_ids: (n,) int64, type-wise IDs of the input, in the order of the new IDs.
            begin: Homogeneous new ID of the first one; those of the others follow.
            part: The partition.
        """


class _TypeTarget:
    """Common part of the files of one type: where they are written, and the number of rows so far."""

    def __init__(self, task: ArtifactWriter, type_name: str, key: str) -> None:
        self._task = task
        self._type_name = type_name
        self._key = key
        self._rows = 0


class ParquetTarget(_TypeTarget):
    """The ID map of one type."""

    @contextmanager
    def opened(self, totals: Mapping[str, int]) -> Iterator[None]:
        with (
            self._task.destination.create(self._key) as new,
            pq.ParquetWriter(new.path, SCHEMA, **ENCODING) as writer,
        ):
            self._writer = writer
            yield
        self._task.wrote(new.get_artifact())

    def append(self, type_name: str, orig_ids: Ids, begin: int, part: int) -> None:
        if type_name != self._type_name:
            return
        for first in range(0, len(orig_ids), ROWS):
            rows = orig_ids[first : first + ROWS].copy()  # in the file it may begin at any byte
            new = np.arange(begin + first, begin + first + len(rows))
            typed = np.arange(self._rows, self._rows + len(rows))
            parts = np.full(len(rows), part, np.int32)
            columns = [number_column(numbers) for numbers in (rows, new, typed, parts)]
            self._writer.write_table(pa.table(columns, schema=SCHEMA))
            self._rows += len(rows)


class VectorTarget(_TypeTarget):
    """(n,) int64, original ID by type-wise new ID: what ``return_mapping=True`` of DGL gives for a type."""

    @contextmanager
    def opened(self, totals: Mapping[str, int]) -> Iterator[None]:
        with self._task.destination.create(self._key) as new:
            self._array = np.lib.format.open_memmap(
                new.path, mode="w+", dtype=np.int64, shape=(totals[self._type_name],)
            )
            yield
            self._array.flush()
        self._task.wrote(new.get_artifact())

    def append(self, type_name: str, orig_ids: Ids, begin: int, part: int) -> None:
        if type_name == self._type_name:
            self._array[self._rows : self._rows + len(orig_ids)] = orig_ids
            self._rows += len(orig_ids)


class PartMapTarget:
    """(n,) int64, partition by homogeneous ID of the input graph, as DGL's ``node_map.npy``.

    Edges that validation dropped have `DROPPED`.

    Args:
        task: Collects what is written.
        key: Where to.
        offsets: First homogeneous ID of each type.
        total: Number of nodes or edges of the input.
    """

    def __init__(self, task: ArtifactWriter, key: str, offsets: Mapping[str, int], total: int) -> None:
        self._task = task
        self._key = key
        self._offsets = offsets
        self._total = total

    @contextmanager
    def opened(self, totals: Mapping[str, int]) -> Iterator[None]:
        with self._task.destination.create(self._key) as new:
            self._array = np.lib.format.open_memmap(new.path, mode="w+", dtype=np.int64, shape=(self._total,))
            for begin in range(0, self._total, ROWS):
                self._array[begin : begin + ROWS] = DROPPED
            yield
            self._array.flush()
        self._task.wrote(new.get_artifact())

    def append(self, type_name: str, orig_ids: Ids, begin: int, part: int) -> None:
        offset = self._offsets[type_name]
        for first in range(0, len(orig_ids), ROWS):
            self._array[offset + orig_ids[first : first + ROWS]] = part
