"""Negatives of edge types: pairs of nodes that are no edges, for link prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.names import MASKS, TRAIN_MASK
from partition_ops.chunked.table_files import parquet_file
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

ROWS = 1 << 18
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NegativeBlock:
    """Consecutive negatives of an edge type."""

    src: Ids  # (n,) int64, type-wise IDs of the sources
    dst: Ids  # (n,) int64, type-wise IDs of the destinations
    # by name, all of `MASKS`, (n,) bool: the parts of the split. Without a split, all are for training
    masks: Mapping[str, npt.NDArray[np.bool_]]


def read_negatives(source: Store, metadata: GraphMetadata, edge_type: str) -> Iterator[NegativeBlock]:
    """Yield the negatives of an edge type in the order of the files; none if it has none.

    Raises:
        InvalidInputError: A file is damaged, has other columns, or an ID that no node has.

    Peak memory: 40 MiB.
    """
    if edge_type not in metadata.negatives:
        return
    ends = edge_type.split(":")[::2]
    counts = [metadata.num_nodes[metadata.node_type_id(name)] for name in ends]
    for key in metadata.negatives[edge_type].files:
        where = source.uri_of(key)
        with parquet_file(source.local_copy(key), where) as file:
            masks = [name for name in MASKS if name in file.schema_arrow.names]
            _check_columns(file.schema_arrow, masks, where)
            begin = 0
            for batch in file.iter_batches(ROWS, columns=["src", "dst", *masks]):
                _check_nulls(batch, begin, where)
                src, dst = (batch.column(name).to_numpy() for name in ("src", "dst"))
                _check_ids((src, dst), counts, ends, begin, where)
                parts = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in masks}
                rest = np.full(len(src), not masks), np.zeros(len(src), np.bool_)
                found = {name: parts.get(name, rest[name != TRAIN_MASK]) for name in MASKS}
                yield NegativeBlock(src, dst, found)
                begin += len(src)


def _check_columns(schema: pa.Schema, masks: list[str], where: str) -> None:
    wanted = {**dict.fromkeys(("src", "dst"), pa.int64()), **dict.fromkeys(masks, pa.bool_())}
    found = {entry.name: entry.type for entry in schema}
    if any(found.get(name) != kind for name, kind in wanted.items()):
        raise InvalidInputError(
            f"{where} has no negatives of an edge type",
            found=", ".join(f"{name} {kind}" for name, kind in found.items()),
            expected="src and dst, int64, and masks such as train_mask, bool",
        )


def _check_nulls(batch: pa.RecordBatch, begin: int, where: str) -> None:
    empty = next((entry.name for entry in batch.schema if batch.column(entry.name).null_count), None)
    if empty is not None:
        raise InvalidInputError(
            f"{where}: a negative has no {empty}, in row {begin} or later",
            found=f"{batch.column(empty).null_count} nulls",
            expected="a value in each row",
        )


def _check_ids(
    columns: tuple[Ids, Ids], counts: list[int], node_types: list[str], begin: int, where: str
) -> None:
    for ids, count, name in zip(columns, counts, node_types, strict=True):
        wrong = np.flatnonzero((ids < 0) | (ids >= count))
        if len(wrong):
            raise InvalidInputError(
                f"{where}: a negative ends at no node, in row {begin + wrong[0]}",
                found=f"the ID {ids[wrong[0]]} of {name!r}",
                expected=f"0 to {count - 1}",
                remedy="Write the file again with type-wise IDs.",
            )
