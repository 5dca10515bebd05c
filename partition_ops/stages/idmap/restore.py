"""Reorder rows of one type from type-wise new-ID order to original order, and back.

Source: DGL guide, chapter 7.1, "ID mapping": ``restored[node_map] = saved``, here without holding either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import num_dropped
from partition_ops.artifacts.write_access import check_file, files_behind
from partition_ops.chunked.table_files import parquet_file
from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError, one_of
from partition_ops.stages.idmap.options import RemapConfig
from partition_ops.stages.idmap.row_files import RowFile, Rows, open_rows, rows_at_once
from partition_ops.stages.idmap.string_ids import StringIds
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress

PART = "{part}"
Ids = npt.NDArray[np.int64]


def restore_rows(
    config: RemapConfig,
    run: Store,
    inputs: Sequence[RowFile],
    output: RowFile,
    *,
    ids: StringIds | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Put rows that are in type-wise new-ID order back into the order of the input graph.

    Args:
        config: Which type.
        run: Root of a run whose ID maps have been exported.
        inputs: One file with a row for each node or edge of the type, or several that are that file cut into
            pieces, in order. As many as there are partitions are taken as one for each.
        output: Row i of it is that of the type-wise ID i of the input graph. Same dtype, same shape of a
            row; zeros for edges that validation dropped.
        ids: The user's own IDs, which go into a column ``id``; the output must be Parquet.
        progress: Shows the rows written.

    Returns:
        The number of rows, their shape and dtype, and the URI of the output.

    Raises:
        UsageError: A file name has no known suffix, the files are not in the order of their numbers, or
            the output cannot hold IDs.
        InvalidInputError: The run has no map of the type; a file cannot be read, or has another number of
            rows, another dtype or another shape of its rows than it must have; there are other IDs than rows.

    Peak memory: 150 MiB beside what the kernel keeps of the mapped files. Parquet, and a ``.pt`` output, take
    their size in temporary files once more.
    """
    _check_output(output, run, inputs, ids)
    type_map = TypeMap(run, node_type=config.node_type, edge_type=config.edge_type)
    rows = open_rows(inputs)
    _check_parts(rows, type_map)
    _check_total(rows, type_map, type_map.count)
    step = rows_at_once(rows.shape, rows.dtype)
    with (
        output.create((type_map.orig_count, *rows.shape[1:]), rows.dtype, ids) as restored,
        (progress or NoProgress()).step("Restoring rows", type_map.count, "rows") as advance,
    ):
        for first, orig in type_map.batches(step):
            restored[orig] = rows.between(first, first + len(orig))
            advance(len(orig))
    return _summary(rows, type_map, [output.where])


def apply_rows(
    config: RemapConfig,
    run: Store,
    inputs: Sequence[RowFile],
    output: RowFile,
    *,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Put rows that are in the order of the input graph into type-wise new-ID order: undo `restore_rows`.

    Args:
        config: Which type.
        run: Root of a run whose ID maps have been exported.
        inputs: One file with a row for each type-wise ID of the input graph, or several in order. The rows
            of edges that validation dropped are skipped.
        output: Row i of it is that of the type-wise new ID i. With ``{part}`` in its name, there is one file
            for each partition up to the last that has nodes or edges of the type.
        progress: Shows the rows written.

    Returns:
        As `restore_rows`.

    Raises:
        UsageError, InvalidInputError: As `restore_rows`.

    Peak memory: as `restore_rows`.
    """
    _check_output(output, run, inputs)
    type_map = TypeMap(run, node_type=config.node_type, edge_type=config.edge_type)
    rows = open_rows(inputs)
    _check_total(rows, type_map, type_map.orig_count)
    parts = enumerate(pairwise(accumulate(type_map.part_sizes, initial=0)))
    written = []
    with (progress or NoProgress()).step("Applying the ID map", type_map.count, "rows") as advance:
        if PART not in output.key:
            _write_range(rows, type_map, 0, type_map.count, output)
            advance(type_map.count)
            return _summary(rows, type_map, [output.where])
        for part, (begin, end) in parts:
            file = replace(output, key=output.key.replace(PART, str(part)))
            _write_range(rows, type_map, begin, end, file)
            written.append(file.where)
            advance(end - begin)
    return _summary(rows, type_map, written)


def _check_output(
    output: RowFile, run: Store, inputs: Sequence[RowFile], ids: StringIds | None = None
) -> None:
    """Reject an output that would replace an input, a file behind the run, or a file of another output."""
    read = files_behind(run) | {f"{file.store.canonical_uri}/{file.key}" for file in inputs}
    if ids is not None:
        read |= {f"{ids.store.canonical_uri}/{key}" for key in ids.keys}
    root = f"{output.store.canonical_uri.rstrip('/')}/"
    name = re.escape(output.key).replace(re.escape(PART), "[0-9]+")
    keys = [place.removeprefix(root) for place in read if place.startswith(root)]
    for key in [output.key, *(key for key in keys if re.fullmatch(name, key))]:
        check_file(output.store, key, inputs=read)


def _write_range(rows: Rows, type_map: TypeMap, begin: int, end: int, file: RowFile) -> None:
    """Write the rows of some type-wise new IDs."""
    step = rows_at_once(rows.shape, rows.dtype)
    with file.create((end - begin, *rows.shape[1:]), rows.dtype) as applied:
        for first, orig in type_map.batches(step, begin, end):
            applied[first - begin : first - begin + len(orig)] = rows.take(orig)


def _check_parts(rows: Rows, type_map: TypeMap) -> None:
    sizes = type_map.part_sizes
    if not 1 < len(rows.arrays) == len(sizes):
        return
    for part, (array, file) in enumerate(zip(rows.arrays, rows.files, strict=True)):
        if len(array) != sizes[part]:
            raise InvalidInputError(
                f"{file.where} is not of partition {part}: its number of rows is wrong",
                found=f"{len(array)} rows",
                expected=f"{sizes[part]}, one for each of the {type_map.what} in that partition",
            )


def _check_total(rows: Rows, type_map: TypeMap, expected: int) -> None:
    if rows.shape[0] != expected:
        names = rows.files[0].where if len(rows.files) == 1 else f"the {len(rows.files)} input files together"
        dropped = f" ({type_map.dropped} were dropped by validation)" if type_map.dropped else ""
        raise InvalidInputError(
            f"The number of rows of {names} is wrong",
            found=f"{rows.shape[0]} rows",
            expected=f"{expected}, one for each of the {type_map.what}{dropped}",
        )


def _summary(rows: Rows, type_map: TypeMap, written: list[str]) -> dict[str, Any]:
    return {
        "type": type_map.what,
        "rows": type_map.count,
        "dropped": type_map.dropped,
        "row_shape": list(rows.shape[1:]),
        "dtype": str(rows.dtype),
        "output": written,
    }


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
        UsageError: There are maps, but none of that type.
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
        self.dropped = 0 if edge_type is None else num_dropped(run, edge_type)

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
        """Yield the first type-wise new ID and (n,) int64 original IDs, at most ``rows`` at a time.

        Args:
            rows: How many at most.
            begin: First type-wise new ID.
            end: Type-wise new ID after the last one; None for all.

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
    """Return the row groups that have some of the rows, and the first row of the first group."""
    sizes = [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    groups = [index for index, (start, stop) in enumerate(bounds) if start < end and stop > begin]
    return groups, bounds[groups[0]][0] if groups else 0


def _no_map(run: Store, key: str, what: str) -> PartitionOpsError:
    """Return the error for a type that has no map, or for a run without maps."""
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
