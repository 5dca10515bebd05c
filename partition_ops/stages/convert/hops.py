"""The in-edges of halo nodes, for halos of more than one hop."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from partition_ops.formats.columns import row_blocks
from partition_ops.stages.convert.buckets import Buckets
from partition_ops.stages.convert.loops import reach
from partition_ops.stages.convert.relabel import Ids

Counts = npt.NDArray[np.int64]
SRC, DST, ORIG_ID, EDGE_ID, TYPE_ID = range(5)


@dataclass
class OuterEdges:
    """Edges of other partitions in the graph of this one, in a file without a name.

    Attributes:
        count: How many there are.
    """

    count: int = 0
    _sizes: list[int] = field(default_factory=list)
    _stream: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def add(self, rows: Counts) -> None:
        """Append (5, n) int64: new IDs of source and destination, original and new edge ID, edge type ID."""
        self._stream.write(rows.data)
        self._sizes.append(rows.shape[1])
        self.count += rows.shape[1]

    def blocks(self, row: int) -> Iterator[Counts]:
        """One of the rows, over all that were added."""
        if not self.count:
            return
        self._stream.flush()
        mapped = np.memmap(self._stream, np.int64, "r")
        begin = 0
        for size in self._sizes:
            found = mapped[begin + row * size : begin + (row + 1) * size]
            for first, end in row_blocks(size, size * 8):
                yield found[first:end]
            begin += 5 * size


def outer_edges(
    buckets: Buckets, part: int, starts: Counts, local: Ids, num_hops: int, advance: Callable[[], Any] = int
) -> OuterEdges:
    """The in-edges of halo nodes that are less than ``num_hops`` hops away, by hop and new edge ID.

    Reads the buckets of all other partitions once for each hop above the first.

    Args:
        buckets: The edges of all partitions.
        part: Which partition.
        starts: (partitions + 1,) int64, first new ID of each partition.
        local: (nodes,) by new ID, not 0 for the sources of the partition's own edges that are elsewhere; so
            are all halo nodes afterwards.
        num_hops: How far the halo goes.
        advance: Called for each partition that has been read.

    Returns:
        The edges. Peak memory: 1 byte a node, and 60 bytes an edge of a segment; disk: 40 bytes each.
    """
    found = OuterEdges()
    hops = (local != 0).astype(np.uint8)
    begin, end = int(starts[part]), int(starts[part + 1])
    for hop in range(2, num_hops + 1):
        before = found.count
        for other in range(len(starts) - 1):
            if other == part:
                continue
            edge_id = buckets.first_edge_id(other)
            for type_id, rows in buckets.open(other):
                which = reach(rows[0], rows[1], int(starts[other]), (begin, end), hop, hops, local)
                if len(which):
                    dst = rows[1, which].astype(np.int64) + int(starts[other])
                    types = np.full(len(which), type_id)
                    found.add(np.stack([rows[0, which], dst, rows[2, which], which + edge_id, types]))
                edge_id += rows.shape[1]
            advance()
        if found.count == before:  # nothing is further away
            break
    return found
