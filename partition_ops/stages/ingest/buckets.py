"""`Buckets`: rows in any order on the way to files in the order of their IDs, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa

from partition_ops.chunked.graph_writer import blocks_of
from partition_ops.stages.ingest.engines import ROW_ID

MOST_BUCKETS = 256  # files that are open at the same time
LEAST_ROWS = 1 << 16  # of a bucket, unless the rows are wide


@dataclass(frozen=True)
class Bucket:
    """An Arrow file with the rows of the IDs from ``begin`` to ``end`` - 1.

    Those ``in_order`` come without a column of IDs.
    """

    path: Path
    begin: int
    end: int
    in_order: bool = False

    def table(self) -> pa.Table:
        """Return the rows, which stay in the file until they are used."""
        with pa.memory_map(str(self.path)) as stream:
            return pa.ipc.open_file(stream).read_all()


@dataclass(frozen=True)
class Buckets:
    """Rows by ranges of their IDs."""

    ranges: Sequence[Bucket]  # the ranges in ascending order
    count: int  # number of IDs in all
    # set by another thread if nobody wants the rows any more: no further range is read
    given_up: Event = field(default_factory=Event)

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns in the order of the IDs, a range at a time; an ID without a row has nulls.

        Memory: twice these columns of a range.
        """
        for bucket in self.ranges:
            begin, end = bucket.begin, min(bucket.end, self.count)
            if begin >= end or self.given_up.is_set():
                return
            table = bucket.table()
            if bucket.in_order:
                yield table.select(columns).combine_chunks()
                continue
            ids = table.column(ROW_ID).to_numpy() - begin
            places = np.full(end - begin, -1, np.int64)
            places[ids] = np.arange(len(ids))
            yield table.select(columns).combine_chunks().take(pa.array(places, mask=places < 0))

    def blocks(self, columns: Sequence[str], size: int) -> Iterator[pa.Table]:
        """Yield columns in the order of the IDs, ``size`` rows at a time.

        Memory: that of `pieces`, and ``size`` rows.
        """
        batches = chain.from_iterable(piece.to_batches() for piece in self.pieces(columns))
        return blocks_of(batches, size)


def fill_buckets(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path, number: int, block_bytes: int
) -> Buckets:
    """Write rows into buckets, each of them at most ``block_bytes`` large, or one row.

    Args:
        batches: The rows, in any order, with the column `ROW_ID`.
        schema: Their columns.
        folder: Where the files go.
        number: Number of IDs.
        block_bytes: Rows in memory at a time.

    Peak memory: a batch, and ``block_bytes``.
    """
    folder.mkdir()
    scatter = _Scatter(schema, folder, block_bytes)
    rows = LEAST_ROWS * max(-(-number // (LEAST_ROWS * MOST_BUCKETS)), 1)
    first = scatter.write(batches, 0, number, rows)
    return Buckets([small for bucket in first for small in scatter.divided(bucket)], number)


def fill_in_order(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path, block_bytes: int
) -> Buckets:
    """Write rows that come in the order of their IDs into files of about ``block_bytes``.

    Peak memory: a batch.
    """
    folder.mkdir()
    ranges: list[Bucket] = []
    begin = end = size = 0
    with ExitStack() as stack:
        writer: pa.ipc.RecordBatchFileWriter | None = None
        for batch in batches:
            if writer is None:
                path = folder / f"{len(ranges)}.arrow"
                writer = stack.enter_context(pa.ipc.new_file(str(path), schema))
            writer.write_batch(batch)
            end, size = end + len(batch), size + batch.nbytes
            if size >= block_bytes:
                ranges.append(Bucket(path, begin, end, in_order=True))
                writer.close()
                begin, size, writer = end, 0, None
        if writer is not None:
            ranges.append(Bucket(path, begin, end, in_order=True))
    return Buckets(ranges, end)


class _Scatter:
    """Writes rows into files by ranges of their IDs."""

    def __init__(self, schema: pa.Schema, folder: Path, block_bytes: int) -> None:
        self.schema = schema
        self.folder = folder
        self.block_bytes = block_bytes
        self._numbers = count()

    def write(self, batches: Iterable[pa.RecordBatch], begin: int, end: int, rows: int) -> list[Bucket]:
        """Write the rows of the IDs from ``begin`` to ``end`` - 1 into ranges of ``rows`` IDs."""
        begins = range(begin, max(end, begin + 1), rows)
        paths = (self.folder / f"{number}.arrow" for number in self._numbers)
        ranges = [Bucket(next(paths), first, min(first + rows, end)) for first in begins]
        with ExitStack() as stack:
            writers = [stack.enter_context(pa.ipc.new_file(str(one.path), self.schema)) for one in ranges]
            for table in self._gathered(batches):
                if len(ranges) == 1:
                    writers[0].write_table(table)
                    continue
                owners = ((table.column(ROW_ID).to_numpy() - begin) // rows).astype(np.uint8)
                order = np.argsort(owners, kind="stable")  # by counting, because there are few values
                ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(ranges)))])
                ordered = table.take(pa.array(order))
                for index in np.flatnonzero(np.diff(ends)):
                    writers[index].write_table(ordered.slice(ends[index], ends[index + 1] - ends[index]))
        return ranges

    def divided(self, bucket: Bucket) -> Iterator[Bucket]:
        """Yield a bucket, or smaller ones in its place if it is too large."""
        size, length = bucket.path.stat().st_size, bucket.end - bucket.begin
        if size <= self.block_bytes or length <= 1:
            yield bucket
            return
        parts = min(-(-size // self.block_bytes), MOST_BUCKETS)
        with pa.memory_map(str(bucket.path)) as stream:
            file = pa.ipc.open_file(stream)
            batches = (file.get_batch(index) for index in range(file.num_record_batches))
            smaller = self.write(batches, bucket.begin, bucket.end, -(-length // parts))
        bucket.path.unlink()
        for one in smaller:
            yield from self.divided(one)

    def _gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield several batches at once, so that each file gets longer runs of rows."""
        waiting: list[pa.Table] = []
        size = 0
        for batch in batches:
            waiting.append(pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema))
            size += waiting[-1].nbytes
            if size >= self.block_bytes // 4:
                yield pa.concat_tables(waiting).combine_chunks()
                waiting, size = [], 0
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()
