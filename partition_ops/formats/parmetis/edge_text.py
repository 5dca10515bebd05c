"""The edge files for ParMETIS: what stays and what is removed, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.chunked.duplicate_edges import PairStore
from partition_ops.chunked.edges import EdgeBlock, EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.formats.parmetis.attributes import Attributes
from partition_ops.formats.parmetis.text_rows import rows_at_once, text_rows
from partition_ops.system.parallel import map_in_threads, unordered_in_threads
from partition_ops.system.progress import Advance
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
MEMORY = 192 << 20  # for the search for duplicates; beyond, it goes through temporary files


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
    """Some edges of one type, which of them stay, and their attributes."""

    type_id: int
    edges: EdgeBlock
    loops: npt.NDArray[np.bool_]
    keep: npt.NDArray[np.bool_]
    attributes: list[npt.NDArray[Any]]


class EdgeText:
    """Writes the edges of a graph, type after type, in the order of their IDs.

    Args:
        metadata: The graph's metadata.
        reader: Its edges; they are read twice.
        attributes: What follows the columns of the edge file.
    """

    def __init__(self, metadata: GraphMetadata, reader: EdgeReader, attributes: Attributes) -> None:
        self.metadata = metadata
        self.reader = reader
        self.attributes = attributes

    def write(self, kept: BinaryIO, removed: BinaryIO, advance: Advance) -> EdgeCounts:
        """Write all edges to one stream or the other; ``advance`` is told of each edge twice."""
        counts = EdgeCounts()
        for kept_text, removed_text, figures in map_in_threads(self._texts, self._pieces(advance)):
            kept.write(kept_text)
            removed.write(removed_text)
            counts += figures
        return counts

    def _repeated(self, advance: Advance) -> Ids:
        """Homogeneous IDs of the edges that repeat an earlier one, ascending; self-loops are none of them."""
        with temporary_folder() as scratch:
            pairs = PairStore(self.metadata, memory=MEMORY, scratch=Path(scratch), across_types=True)

            def add(chunk: EdgeChunk) -> None:
                for block in self.reader.blocks(chunk):
                    joins = ~self._self_loops(chunk.edge_type_id, block)
                    pairs.add(chunk.edge_type_id, block.edge_ids[joins], block.src[joins], block.dst[joins])
                    advance(len(block.src))

            for _ in unordered_in_threads(add, self.reader.chunk_starts):
                pass
            found = [again.places for part in pairs.overlaps() for again in part.duplicates.values()]
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]))

    def _pieces(self, advance: Advance) -> Iterator[_Piece]:
        repeated = self._repeated(advance)
        step = rows_at_once(self.attributes.width)
        for type_id, chunks in groupby(self.reader.chunks(), lambda chunk: chunk.edge_type_id):
            rows = self.attributes.of_type(type_id)
            for block in (block for chunk in chunks for block in self.reader.blocks(chunk)):
                for begin in range(0, len(block.src), step):
                    piece = _slice(block, begin, begin + step)
                    loops = self._self_loops(type_id, piece)
                    keep = ~loops
                    keep[_rows_of(repeated, self.metadata.edge_offsets[type_id] + piece.edge_ids)] = False
                    yield _Piece(type_id, piece, loops, keep, rows.take(piece.edge_ids))
                advance(len(block.src))

    def _self_loops(self, type_id: int, block: EdgeBlock) -> npt.NDArray[np.bool_]:
        src_type, dst_type = self._ends(type_id)
        return block.src == block.dst if src_type == dst_type else np.zeros(len(block.src), np.bool_)

    def _ends(self, type_id: int) -> tuple[int, int]:
        """Node type IDs of the sources and of the destinations."""
        edge_type = self.metadata.edge_types[type_id]
        return self.metadata.node_type_id(edge_type.src), self.metadata.node_type_id(edge_type.dst)

    def _texts(self, piece: _Piece) -> tuple[pa.Buffer, pa.Buffer, EdgeCounts]:
        src_offset, dst_offset = (self.metadata.node_offsets[end] for end in self._ends(piece.type_id))
        edges = piece.edges
        type_ids = np.full(len(edges.src), piece.type_id)
        columns = [edges.src + src_offset, edges.dst + dst_offset, edges.edge_ids, type_ids]
        kept, removed = (
            text_rows([column[which] for column in columns], [block[which] for block in piece.attributes])
            for which in (piece.keep, ~piece.keep)
        )
        stay, self_loops = int(piece.keep.sum()), int(piece.loops.sum())
        return kept, removed, EdgeCounts(stay, self_loops, len(type_ids) - stay - self_loops)


def _slice(block: EdgeBlock, begin: int, end: int) -> EdgeBlock:
    return EdgeBlock(block.edge_ids[begin:end], block.src[begin:end], block.dst[begin:end])


def _rows_of(wanted: Ids, ids: Ids) -> Ids:
    """Rows in which ascending IDs are that are wanted too."""
    here = wanted[slice(*np.searchsorted(wanted, [ids[0], ids[-1] + 1]))]
    rows: Ids = np.searchsorted(ids, here)
    return rows
