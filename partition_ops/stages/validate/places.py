"""Where an edge is: its chunk and row, as one number, known before the chunks before it are counted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.metadata import GraphMetadata

Ids = npt.NDArray[np.int64]
ROW_BITS = 40  # a million million rows in a chunk, and eight million chunks


def places_of(chunk: EdgeChunk, rows: Ids) -> Ids:
    """One number for each row of a chunk; in the order of the edges' IDs within the edge type."""
    return rows + (chunk.index << ROW_BITS)


class Places:
    """Turns places into IDs, once all chunks are counted.

    Args:
        metadata: The graph's metadata.
        chunks: All edge chunks.
        rows: Rows by chunk; a chunk that could not be read is left out, and counts as the metadata says.
    """

    def __init__(
        self, metadata: GraphMetadata, chunks: list[EdgeChunk], rows: Mapping[EdgeChunk, int]
    ) -> None:
        self._chunks: dict[int, list[EdgeChunk]] = {t: [] for t in range(len(metadata.edge_types))}
        self._starts: dict[int, list[int]] = {t: [0] for t in range(len(metadata.edge_types))}
        for chunk in chunks:
            self._chunks[chunk.edge_type_id].append(chunk)
            starts = self._starts[chunk.edge_type_id]
            starts.append(starts[-1] + rows.get(chunk, _stated(metadata, chunk)))

    def edge_ids(self, type_id: int, places: Ids) -> Ids:
        """(n,) int64, type-wise IDs of the edges at (n,) int64 places."""
        if len(places) == 0:
            return places
        starts = np.array(self._starts[type_id][:-1], np.int64)
        ids: Ids = starts[places >> ROW_BITS] + (places & ((1 << ROW_BITS) - 1))
        return ids

    def start(self, type_id: int, index: int) -> int:
        """Type-wise ID of the first edge of a chunk."""
        return self._starts[type_id][index]

    def find(self, type_id: int, place: int) -> tuple[EdgeChunk, int]:
        """Chunk and row of a place."""
        return self._chunks[type_id][place >> ROW_BITS], place & ((1 << ROW_BITS) - 1)


def _stated(metadata: GraphMetadata, chunk: EdgeChunk) -> int:
    counts = metadata.num_edges_per_chunk[chunk.edge_type_id]
    # what cannot be is refused anyway, and must not overflow before
    known = counts is not None and chunk.index < len(counts) and counts[chunk.index] < 1 << ROW_BITS
    return counts[chunk.index] if counts is not None and known else 0
