"""The files that an export of ID maps fills, partition by partition, without holding them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

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


Append = Callable[[str, Ids, int, int], None]
"""Adds what a partition owns of a type to a file. Several threads may call it, each with types of its own.

Its arguments are the type (a file passes over types that are not its own), (n,) int64 type-wise IDs of the
input in the order of the new IDs, the homogeneous new ID of the first one (those of the others follow), and
the partition. Each function below yields one; its file appears when the context ends well.
"""


@contextmanager
def id_map(task: ArtifactWriter, key: str, type_name: str) -> Iterator[Append]:
    """Write the ID map of one type."""
    count = 0

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        nonlocal count
        if name != type_name:
            return
        for first in range(0, len(orig_ids), ROWS):
            rows = orig_ids[first : first + ROWS].copy()  # in the file it may begin at any byte
            new = np.arange(begin + first, begin + first + len(rows))
            typed = np.arange(count, count + len(rows))
            parts = np.full(len(rows), part, np.int32)
            columns = [number_column(numbers) for numbers in (rows, new, typed, parts)]
            writer.write_table(pa.table(columns, schema=SCHEMA))
            count += len(rows)

    with task.destination.create(key) as new, pq.ParquetWriter(new.path, SCHEMA, **ENCODING) as writer:
        yield append
    task.wrote(new.get_artifact())


@contextmanager
def vector(task: ArtifactWriter, key: str, type_name: str, total: int) -> Iterator[Append]:
    """Write (total,) int64, original ID by type-wise new ID: what ``return_mapping=True`` of DGL returns."""
    count = 0

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        nonlocal count
        if name == type_name:
            array[count : count + len(orig_ids)] = orig_ids
            count += len(orig_ids)

    with _created_array(task, key, total) as array:
        yield append


@contextmanager
def part_map(task: ArtifactWriter, key: str, offsets: Mapping[str, int], total: int) -> Iterator[Append]:
    """Write (total,) int64, partition by homogeneous ID of the input graph, as DGL's ``node_map.npy``.

    Edges that validation dropped have `DROPPED`.

    Args:
        task: Collects what is written.
        key: Where to.
        offsets: First homogeneous ID of each type.
        total: Number of nodes or edges of the input.
    """

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        for first in range(0, len(orig_ids), ROWS):
            array[offsets[name] + orig_ids[first : first + ROWS]] = part

    with _created_array(task, key, total) as array:
        for begin in range(0, total, ROWS):
            array[begin : begin + ROWS] = DROPPED
        yield append


@contextmanager
def _created_array(task: ArtifactWriter, key: str, total: int) -> Iterator[Ids]:
    """Yield a mapped array to fill."""
    with task.destination.create(key) as new:
        array = np.lib.format.open_memmap(new.path, mode="w+", dtype=np.int64, shape=(total,))
        yield array
        array.flush()
    task.wrote(new.get_artifact())
