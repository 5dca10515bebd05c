"""The position of an edge, file and row in one number, and its ID, known once all files are counted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.validate.graph_facts import EdgeFile

Ids = npt.NDArray[np.int64]
ROW_BITS = 40  # a million million rows in a file, and eight million files


def positions_of(chunk: EdgeChunk, rows: Ids) -> Ids:
    """Return a number for each row of a file; the order is that of the type-wise edge IDs."""
    return rows + (chunk.index << ROW_BITS)


class EdgePositions:
    """Turns positions into type-wise edge IDs.

    Args:
        metadata: The graph's metadata.
        files: All edge files, as they were read; one whose rows are not known has as many as the metadata
            says.
    """

    def __init__(self, metadata: GraphMetadata, files: Iterable[EdgeFile]) -> None:
        self._chunks: dict[int, list[EdgeChunk]] = {t: [] for t in range(len(metadata.edge_types))}
        self._starts: dict[int, list[int]] = {t: [0] for t in range(len(metadata.edge_types))}
        for file in files:
            self._chunks[file.chunk.edge_type_id].append(file.chunk)
            starts = self._starts[file.chunk.edge_type_id]
            rows = _expected_rows(metadata, file.chunk) if file.rows is None else file.rows
            starts.append(starts[-1] + rows)

    def edge_ids(self, type_id: int, positions: Ids) -> Ids:
        """Return the (n,) int64 type-wise IDs of the edges at (n,) int64 positions."""
        if len(positions) == 0:
            return positions
        starts = np.array(self._starts[type_id][:-1], np.int64)
        ids: Ids = starts[positions >> ROW_BITS] + (positions & ((1 << ROW_BITS) - 1))
        return ids

    def edge_id(self, type_id: int, chunk: int, row: int) -> int:
        """Return the type-wise ID of one edge."""
        return self._starts[type_id][chunk] + row

    def find(self, type_id: int, position: int) -> tuple[EdgeChunk, int]:
        """Return file and row of a position."""
        return self._chunks[type_id][position >> ROW_BITS], position & ((1 << ROW_BITS) - 1)


def _expected_rows(metadata: GraphMetadata, chunk: EdgeChunk) -> int:
    counts = metadata.num_edges_per_chunk[chunk.edge_type_id]
    # an impossible count is reported anyway, and must not overflow before
    known = counts is not None and chunk.index < len(counts) and counts[chunk.index] < 1 << ROW_BITS
    return counts[chunk.index] if counts is not None and known else 0
