"""Write the text files that ``pm_dglpart`` reads, and one with the edges that it must not get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, Task, input_objects
from partition_ops.chunked.duplicate_search import DuplicateSearch
from partition_ops.chunked.edges import EdgeBlock, EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.formats.parmetis.text_files import edges_file, nodes_file, removed_edges_file, stats_file
from partition_ops.formats.parmetis.text_table import rows_at_once, text_rows
from partition_ops.formats.parmetis.weights_and_attributes import Attributes, NodeWeights, chosen_attributes
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads, unordered_in_threads
from partition_ops.system.progress import Advance, NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
MEMORY = 192 << 20  # for the search for duplicates; beyond, it goes through temporary files


def prepare_text_task(
    source: Store,
    destination: Store,
    *,
    graph_name: str | None = None,
    weights: str = "node-types",
    attributes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Task:
    """Return the task that writes ``prepare/<graph>_{nodes,edges,stats,removed_edges}.txt``.

    Rows are in the order of homogeneous IDs, fields have one space between them. The weights of a node are
    those of `NodeWeights`. An edge that is a self-loop, or that has the source and destination of an earlier
    one, of whatever edge type, is not in the edge file but in ``<graph>_removed_edges.txt``, in the same
    columns: homogeneous source and destination, type-wise edge ID, edge type ID, all of the input graph. An
    edge and its reverse both stay. Attributes follow in every row; see `Attributes`. Edges that validation
    has dropped are in neither file. Format: DGL guide, chapter 7.1.

    Its counters are the three numbers of ``<graph>_stats.txt``, and those of removed self-loops and
    duplicates.

    Args:
        source: Root of the input graph; its edges are read twice.
        destination: Root of the output.
        graph_name: Used instead of the name in ``metadata.json``.
        weights: The weights of a node; see `NodeWeights`.
        attributes: Names of the features that become attributes; ``all`` means all.
        progress: Shows the rows written.

    Raises:
        UsageError: From the task: no type has a feature that is to be an attribute or a weight.
        InvalidInputError: From the task: a file of edges or features cannot be read.

    Peak memory: some 0.7 GB, whatever the size of the graph, and 48 bytes a duplicate; `NodeWeights` says
    what weights add.
    """
    metadata = load_metadata(source, graph_name=graph_name)
    dropped = ListedEdges(destination, layout.DROPPED)

    def work(writer: ArtifactWriter) -> Counters:
        reader = EdgeReader(source, metadata, dropped.ids(metadata))
        node_weights = NodeWeights(weights, metadata, source, reader)
        columns = chosen_attributes(attributes, metadata, source)
        return _TextFiles(metadata, reader, node_weights, columns, writer, progress or NoProgress()).write()

    options = {"graph_name": graph_name, "weights": weights, "attributes": list(attributes)}
    return Task(
        layout.PREPARE_TEXT_TASK,
        destination,
        work,
        options={**options, **dropped.digests},
        inputs=input_objects(source, metadata),
        outputs=[f"{layout.PARMETIS_TEXT}/"],
    )


@dataclass(frozen=True)
class _EdgePiece:
    """Some edges of one type, which of them stay, and their attributes."""

    type_id: int
    edges: EdgeBlock
    loops: npt.NDArray[np.bool_]
    keep: npt.NDArray[np.bool_]
    attributes: list[Values]


class _TextFiles:
    """Writes the files of one graph."""

    def __init__(
        self,
        metadata: GraphMetadata,
        reader: EdgeReader,
        weights: NodeWeights,
        attributes: tuple[Attributes, Attributes],
        writer: ArtifactWriter,
        progress: Progress,
    ) -> None:
        self.metadata = metadata
        self.weights = weights
        self.attributes, self.edge_attributes = attributes
        self.reader = reader
        self.writer = writer
        self.progress = progress

    def write(self) -> Counters:
        self._write_nodes()
        kept, self_loops, duplicates = self._write_edges()
        stats = (sum(self.metadata.num_nodes), kept, self.weights.count)
        line = " ".join(map(str, stats)) + "\n"
        self.writer.wrote(self.writer.destination.write_bytes(self._key(stats_file), line.encode()))
        return {
            **dict(zip(("num_nodes", "num_edges", "num_node_weights"), stats, strict=True)),
            "self_loops_removed": self_loops,
            "duplicates_removed": duplicates,
        }

    def _key(self, name_of: Callable[[str], str]) -> str:
        return f"{layout.PARMETIS_TEXT}/{name_of(self.metadata.graph_name)}"

    def _write_nodes(self) -> None:
        title, total = "Writing nodes", sum(self.metadata.num_nodes)
        with (
            self.progress.step(title, total, "nodes") as advance,
            self.writer.create(self._key(nodes_file)) as new,
            new.path.open("wb") as stream,
        ):
            for text, rows in map_in_threads(self._node_text, self._node_blocks()):
                stream.write(text)
                advance(rows)

    def _node_blocks(self) -> Iterator[tuple[int, Ids, list[Values]]]:
        """Yield consecutive nodes of one type: type ID, type-wise IDs, attributes."""
        step = rows_at_once(self.attributes.width)
        for type_id, count in enumerate(self.metadata.num_nodes):
            rows = self.attributes.of_type(type_id)
            for start in range(0, count, step):
                ids = np.arange(start, min(count, start + step))
                yield type_id, ids, rows.take(ids)

    def _node_text(self, block: tuple[int, Ids, list[Values]]) -> tuple[pa.Buffer, int]:
        type_id, ids, attributes = block
        begin = self.metadata.node_offsets[type_id] + int(ids[0])
        weights = self.weights.columns(type_id, begin, begin + len(ids))
        return text_rows([np.full(len(ids), type_id), *weights, ids], attributes), len(ids)

    def _write_edges(self) -> tuple[int, int, int]:
        """Write the edges type after type, in the order of their IDs; they are read twice.

        Returns:
            Numbers of edges in the edge file, of self-loops, and of duplicates.
        """
        counts = np.zeros(3, np.int64)
        with (
            self.progress.step("Writing edges", 2 * sum(self.metadata.num_edges), "edges") as advance,
            self.writer.create(self._key(removed_edges_file)) as removed_file,
            self.writer.create(self._key(edges_file)) as kept_file,
            kept_file.path.open("wb") as kept_stream,
            removed_file.path.open("wb") as removed_stream,
        ):
            for kept_text, removed_text, figures in map_in_threads(self._edge_text, self._pieces(advance)):
                kept_stream.write(kept_text)
                removed_stream.write(removed_text)
                counts += figures
        kept, self_loops, duplicates = counts.tolist()
        return kept, self_loops, duplicates

    def _repeated(self, advance: Advance) -> Ids:
        """Return the homogeneous IDs of edges that repeat an earlier one, ascending, without self-loops."""
        with temporary_folder() as scratch:
            pairs = DuplicateSearch(self.metadata, memory=MEMORY, scratch=Path(scratch), across_types=True)

            def add(chunk: EdgeChunk) -> None:
                for block in self.reader.blocks(chunk):
                    joins = ~self._self_loops(chunk.edge_type_id, block)
                    pairs.add(chunk.edge_type_id, block.edge_ids[joins], block.src[joins], block.dst[joins])
                    advance(len(block.src))

            for _ in unordered_in_threads(add, self.reader.chunk_starts):
                pass
            found = [again.places for part in pairs.overlaps() for again in part.duplicates.values()]
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]))

    def _pieces(self, advance: Advance) -> Iterator[_EdgePiece]:
        repeated = self._repeated(advance)
        step = rows_at_once(self.edge_attributes.width)
        for type_id, chunks in groupby(self.reader.chunks(), lambda chunk: chunk.edge_type_id):
            rows = self.edge_attributes.of_type(type_id)
            for block in (block for chunk in chunks for block in self.reader.blocks(chunk)):
                for begin in range(0, len(block.src), step):
                    end = begin + step
                    piece = EdgeBlock(block.edge_ids[begin:end], block.src[begin:end], block.dst[begin:end])
                    loops = self._self_loops(type_id, piece)
                    keep = ~loops
                    ids = self.metadata.edge_offsets[type_id] + piece.edge_ids  # ascending
                    here = repeated[slice(*np.searchsorted(repeated, [ids[0], ids[-1] + 1]))]
                    keep[np.searchsorted(ids, here)] = False
                    yield _EdgePiece(type_id, piece, loops, keep, rows.take(piece.edge_ids))
                advance(len(block.src))

    def _self_loops(self, type_id: int, block: EdgeBlock) -> npt.NDArray[np.bool_]:
        src_type, dst_type = self._ends(type_id)
        return block.src == block.dst if src_type == dst_type else np.zeros(len(block.src), np.bool_)

    def _ends(self, type_id: int) -> tuple[int, int]:
        """Return the node type IDs of the sources and of the destinations."""
        edge_type = self.metadata.edge_types[type_id]
        return self.metadata.node_type_id(edge_type.src), self.metadata.node_type_id(edge_type.dst)

    def _edge_text(self, piece: _EdgePiece) -> tuple[pa.Buffer, pa.Buffer, Ids]:
        """Return the text for either file, and the numbers that `_write_edges` returns."""
        src_offset, dst_offset = (self.metadata.node_offsets[end] for end in self._ends(piece.type_id))
        edges = piece.edges
        type_ids = np.full(len(edges.src), piece.type_id)
        columns = [edges.src + src_offset, edges.dst + dst_offset, edges.edge_ids, type_ids]
        kept, removed = (
            text_rows([column[which] for column in columns], [block[which] for block in piece.attributes])
            for which in (piece.keep, ~piece.keep)
        )
        stay, loops = int(piece.keep.sum()), int(piece.loops.sum())
        return kept, removed, np.array([stay, loops, len(type_ids) - stay - loops])
