"""`Buckets`: rows in any order on the way to files in the order of their IDs, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from partition_ops.chunked.graph_writer import ORIG_ID

MOST_BUCKETS = 256


@dataclass(frozen=True)
class Buckets:
    """Rows by ranges of their IDs, each range in an Arrow file.

    Attributes:
        paths: The files.
        rows: Size of a range.
        count: Number of IDs in all.
        schema: Columns, with the ID as `ORIG_ID`.
    """

    paths: Sequence[Path]
    rows: int
    count: int
    schema: pa.Schema

    def blocks(self, columns: Sequence[str], size: int) -> Iterator[pa.Table]:
        """Yield columns in the order of the IDs, ``size`` rows at a time; an ID without a row has nulls.

        ``size`` must divide the rows of a bucket. Memory: one bucket of these columns.
        """
        for index, path in enumerate(self.paths):
            begin, end = index * self.rows, min((index + 1) * self.rows, self.count)
            with pa.memory_map(str(path)) as stream:
                table = pa.ipc.open_file(stream).read_all()
                ids = table.column(ORIG_ID).to_numpy() - begin
                places = np.full(end - begin, -1, np.int64)
                places[ids] = np.arange(len(ids))
                chosen = table.select([ORIG_ID, *columns]).combine_chunks()
                for first in range(0, end - begin, size):
                    wanted = places[first : first + size]
                    yield chosen.take(pa.array(wanted, mask=wanted < 0)).select(columns)


def fill_buckets(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path, count: int, rows: int
) -> Buckets:
    """Write rows into buckets.

    Args:
        batches: The rows, in any order, with the column `ORIG_ID`.
        schema: Their columns.
        folder: Where the files go.
        count: Number of IDs.
        rows: Multiple of which a range of IDs is.

    Peak memory: two batches.
    """
    rows *= max(-(-count // (rows * MOST_BUCKETS)), 1)
    number = max(-(-count // rows), 1)
    folder.mkdir()
    paths = [folder / f"{index}.arrow" for index in range(number)]
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(str(path), schema)) for path in paths]
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            if number == 1:
                writers[0].write_table(table)
                continue
            owners = table.column(ORIG_ID).to_numpy() // rows
            order = np.argsort(owners, kind="stable")
            table = table.take(pa.array(order))
            ends = np.searchsorted(owners[order], np.arange(number + 1))
            for index in np.flatnonzero(np.diff(ends)):
                writers[index].write_table(table.slice(ends[index], ends[index + 1] - ends[index]))
    return Buckets(paths, rows, count, schema)
