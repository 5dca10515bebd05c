"""Rows of one type from type-wise new-ID order back to original order, and the other way round.

Source: DGL guide, chapter 7.1, "ID mapping": ``restored[node_map] = saved``, here without holding either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.stages.idmap.options import RemapConfig
from partition_ops.stages.idmap.row_files import RowFile, rows_at_once
from partition_ops.stages.idmap.rows import Rows, open_rows
from partition_ops.stages.idmap.string_ids import StringIds
from partition_ops.stages.idmap.type_map import TypeMap
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress

PART = "{part}"


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
        ids: The user's own IDs, put beside the rows in a column ``id``; the output must be Parquet then.
        progress: Shows the rows written.

    Returns:
        What was done: the number of rows, their shape and dtype, the output's URI.

    Raises:
        UsageError: A file name does not say its format, the files are not in the order of their numbers, or
            the output cannot hold IDs.
        InvalidInputError: The run has no map of the type; a file cannot be read, or has another number of
            rows, another dtype or another shape of its rows than it must have; there are other IDs than rows.

    Peak memory: 150 MiB beside what the kernel keeps of the mapped files. Parquet, and a ``.pt`` output, take
    their size in temporary files once more.
    """
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
    """The inverse of `restore_rows`: put rows in the input graph's order into type-wise new-ID order.

    Args:
        config: Which type.
        run: Root of a run whose ID maps have been exported.
        inputs: One file with a row for each type-wise ID of the input graph, or several in order. The rows
            of edges that validation dropped are passed over.
        output: Row i of it is that of the type-wise new ID i. With ``{part}`` in its name, there is one file
            for each partition up to the last that has nodes or edges of the type.
        progress: Shows the rows written.

    Returns:
        As `restore_rows`.

    Raises:
        UsageError, InvalidInputError: As `restore_rows`.

    Peak memory: as `restore_rows`.
    """
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
