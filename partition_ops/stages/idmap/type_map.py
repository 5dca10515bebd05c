"""The exported ID map of one type, read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.chunked.table_files import parquet_file
from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError, one_of
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]


class TypeMap:
    """Original IDs of one type by type-wise new ID.

    Args:
        run: Root of the run.
        node_type: The node type, or
        edge_type: the edge type, as ``src:rel:dst``.

    Attributes:
        what: The type, for messages.
        where: URI of the map.
        dropped: Number of edges of the type in the input that validation has dropped.

    Raises:
        UsageError: There are maps, and none of that type.
        InvalidInputError: There are no maps; from every method, the map is damaged.
    """

    def __init__(self, run: Store, *, node_type: str | None, edge_type: str | None) -> None:
        if node_type is not None:
            self.what, key = f"node type {node_type!r}", layout.node_id_map(node_type)
        else:
            self.what, key = f"edge type {edge_type!r}", layout.edge_id_map(edge_type or "")
        if not run.exists(key):
            raise _no_map(run, key, self.what)
        self._path = run.local_copy(key)
        self.where = run.uri_of(key)
        self.dropped = _dropped(run, edge_type)

    @cached_property
    def part_sizes(self) -> list[int]:
        """Number of nodes or edges of the type in each partition, up to the last that has any."""
        sizes = np.zeros(0, np.int64)
        with parquet_file(self._path, self.where) as file:
            for batch in file.iter_batches(columns=["part_id"]):
                found = np.bincount(batch.column(0).to_numpy())
                sizes = np.pad(sizes, (0, max(0, len(found) - len(sizes))))
                sizes[: len(found)] += found
        return [int(size) for size in sizes]

    @property
    def count(self) -> int:
        """Number of nodes or edges of the type in the partitions."""
        return sum(self.part_sizes)

    @property
    def orig_count(self) -> int:
        """Number of nodes or edges of the type in the input."""
        return self.count + self.dropped

    def batches(self, rows: int, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Ids]]:
        """First type-wise new ID and (n,) int64 original IDs, at most ``rows`` at a time.

        Args:
            rows: How many at most.
            begin: First type-wise new ID.
            end: The one behind the last; None for all.

        Raises:
            InvalidInputError: An original ID is not from 0 to `orig_count` - 1.
        """
        end = self.count if end is None else end
        with parquet_file(self._path, self.where) as file:
            groups, first = _overlapping(file, begin, end)
            for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=["orig_id"]):
                skipped = max(0, begin - first)
                orig = batch.column(0).to_numpy()[skipped : max(0, end - first)]
                self._check(orig)
                if len(orig):
                    yield first + skipped, orig
                first += batch.num_rows

    def _check(self, orig: Ids) -> None:
        if len(orig) and (orig.min() < 0 or orig.max() >= self.orig_count):
            raise InvalidInputError(
                f"{self.where} is not the map of the {self.what}: an original ID is out of range",
                found=f"{int(orig.max() if orig.min() >= 0 else orig.min())}",
                expected=f"0 to {self.orig_count - 1}",
                remedy="Export the ID maps again: partition-ops idmap export.",
            )


def _overlapping(file: pq.ParquetFile, begin: int, end: int) -> tuple[list[int], int]:
    """Row groups with some of the rows, and the first row of the first of them."""
    sizes = [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    groups = [index for index, (start, stop) in enumerate(bounds) if start < end and stop > begin]
    return groups, bounds[groups[0]][0] if groups else 0


def _dropped(run: Store, edge_type: str | None) -> int:
    key = layout.dropped_edge_map(edge_type or "")
    if edge_type is None or not run.exists(key):
        return 0
    with parquet_file(run.local_copy(key), run.uri_of(key)) as file:
        return int(file.metadata.num_rows)


def _no_map(run: Store, key: str, what: str) -> PartitionOpsError:
    """The wrong type was named, or there are no maps."""
    folder, _, name = key.rpartition("/")
    suffix = PurePosixPath(name).suffix
    known = [PurePosixPath(entry.key).stem for entry in run.list(f"{folder}/") if entry.key.endswith(suffix)]
    problem = f"There is no ID map of the {what} in {run.uri}"
    if known:
        return UsageError(problem, expected=one_of(known))
    return InvalidInputError(
        problem,
        found="no ID maps at all",
        remedy="Export them with 'partition-ops idmap export', or check the path.",
    )
