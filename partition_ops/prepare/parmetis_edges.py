"""The edge files for ParMETIS: what stays and what is removed, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.graph import parmetis
from partition_ops.graph.edges import EdgeBlock, EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.parallel import map_in_threads
from partition_ops.prepare.repeated_edges import Keys, RepeatedEdges, edge_keys
from partition_ops.progress import Advance

Columns = Sequence[npt.NDArray[np.int64]]


def text_rows(names: Sequence[str], columns: Columns) -> pa.Buffer:
    """Rows of numbers with one space between them.

    Args:
        names: A name for each column; they are not written.
        columns: (n,) int64 each.
    """
    sink = pa.BufferOutputStream()
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    pa_csv.write_csv(pa.table(list(columns), names=list(names)), sink, options)
    return sink.getvalue()


@dataclass(frozen=True)
class EdgeCounts:
    """Edges in the edge file, and those left out of it."""

    kept: int = 0
    self_loops: int = 0
    duplicates: int = 0

    def __add__(self, other: EdgeCounts) -> EdgeCounts:
        return EdgeCounts(
            self.kept + other.kept, self.self_loops + other.self_loops, self.duplicates + other.duplicates
        )


@dataclass(frozen=True)
class _Piece:
    """Some edges of one type: those that stay and those that are removed, as columns of the edge file."""

    kept: Columns
    removed: Columns
    counts: EdgeCounts


class EdgeText:
    """Writes the edges of a graph, type after type, in the order of their IDs.

    Args:
        metadata: The graph's metadata.
        reader: Its edges; they are read twice.
    """

    def __init__(self, metadata: GraphMetadata, reader: EdgeReader) -> None:
        self.metadata = metadata
        self.reader = reader

    def write(self, kept: BinaryIO, removed: BinaryIO, advance: Advance) -> EdgeCounts:
        """Write all edges to one stream or the other; ``advance`` is told of each edge twice."""
        counts = EdgeCounts()
        for kept_text, removed_text, figures in map_in_threads(_texts, self._pieces(advance)):
            kept.write(kept_text)
            removed.write(removed_text)
            counts += figures
        return counts

    def _pieces(self, advance: Advance) -> Iterator[_Piece]:
        chunks: dict[int, list[EdgeChunk]] = {}
        for chunk in self.reader.chunks():
            chunks.setdefault(chunk.edge_type_id, []).append(chunk)
        for type_id, of_type in chunks.items():
            candidates = self._candidates(type_id, of_type, advance)
            repeated = RepeatedEdges(candidates, self.metadata.num_edges[type_id])
            for block in self._blocks(of_type, advance):
                yield self._piece(type_id, block, repeated)

    def _blocks(self, chunks: list[EdgeChunk], advance: Advance) -> Iterator[EdgeBlock]:
        for chunk in chunks:
            for block in self.reader.blocks(chunk):
                yield block
                advance(len(block.src))

    def _candidates(self, type_id: int, chunks: list[EdgeChunk], advance: Advance) -> Iterator[Keys]:
        """Keys of all edges of a type but self-loops, which are removed anyhow."""
        for block in self._blocks(chunks, advance):
            yield self._keys(type_id, block)[~self._self_loops(type_id, block)]

    def _keys(self, type_id: int, block: EdgeBlock) -> Keys:
        sources, destinations = (self.metadata.num_nodes[end] for end in self._ends(type_id))
        return edge_keys(block.src, block.dst, sources=sources, destinations=destinations)

    def _self_loops(self, type_id: int, block: EdgeBlock) -> npt.NDArray[np.bool_]:
        src_type, dst_type = self._ends(type_id)
        return block.src == block.dst if src_type == dst_type else np.zeros(len(block.src), np.bool_)

    def _ends(self, type_id: int) -> tuple[int, int]:
        """Node type IDs of the sources and of the destinations."""
        edge_type = self.metadata.edge_types[type_id]
        return self.metadata.node_type_id(edge_type.src), self.metadata.node_type_id(edge_type.dst)

    def _piece(self, type_id: int, block: EdgeBlock, repeated: RepeatedEdges) -> _Piece:
        loops = self._self_loops(type_id, block)
        keep = ~loops
        keep[keep] = repeated.first_time(self._keys(type_id, block)[keep])
        src_offset, dst_offset = (self.metadata.node_offsets[end] for end in self._ends(type_id))
        columns = (
            block.src + src_offset,
            block.dst + dst_offset,
            block.edge_ids,
            np.full(len(keep), type_id),
        )
        kept, self_loops = int(keep.sum()), int(loops.sum())
        counts = EdgeCounts(kept, self_loops, len(keep) - kept - self_loops)
        return _Piece([column[keep] for column in columns], [column[~keep] for column in columns], counts)


def _texts(piece: _Piece) -> tuple[pa.Buffer, pa.Buffer, EdgeCounts]:
    columns = parmetis.EDGE_COLUMNS
    return text_rows(columns, piece.kept), text_rows(columns, piece.removed), piece.counts
