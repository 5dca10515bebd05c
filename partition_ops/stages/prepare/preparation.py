"""`Preparation`: edges are split by range of nodes, and each range is sorted by itself."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import header_bytes, neighbour_bytes, write_header
from partition_ops.artifacts.tasks import ArtifactWriter, Counters
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.prepare.half_edges import (
    CopiedHalfEdges,
    Counts,
    HalfEdges,
    Neighbours,
    digit_room,
    sort_range,
)
from partition_ops.stages.prepare.options import range_shift
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.traffic.kept_half_edges import HalfEdgesByRange, KeptHalfEdges

STATS_VERSION = 1
Degrees = npt.NDArray[np.int64]


class Preparation:
    """Reads the input once and splits its edges by range of nodes, then sorts each range by itself.

    Random access stays within a range, which fits in the processor's cache; memory holds a few ranges, not
    the graph.

    Attributes:
        nodes: Number of nodes of all types.
        shift: Binary logarithm of the number of nodes in a range.
        width: Bytes of a neighbour in the graph's file.
    """

    def __init__(self, metadata: GraphMetadata, progress: Progress) -> None:
        self.metadata = metadata
        self.progress = progress
        self.nodes = sum(metadata.num_nodes)
        self.shift = range_shift(self.nodes)
        self.width = neighbour_bytes(self.nodes, sum(metadata.num_edges))

    def write(
        self, reader: EdgeReader, writer: ArtifactWriter, kept: KeptHalfEdges | None = None
    ) -> Counters:
        """Write the graph, in one process; return the figures of the stage.

        Args:
            reader: Reads the edges.
            writer: Writes the graph.
            kept: Where to leave the half-edges, whose file then stays.
        """
        found: list[tuple[Counts, Degrees, Degrees]] = []

        def write_neighbours(stream: BinaryIO) -> tuple[Degrees, Degrees]:
            found.append(self.sort(dealt, range(dealt.ranges), stream))
            if kept is not None:
                keep(kept, *found[0])
            return found[0][1:]

        def keep(kept: KeptHalfEdges, loops: Counts, _: Degrees, in_degrees: Degrees) -> None:
            starts = [dealt.nodes_of(number).start for number in range(dealt.ranges)]
            ends_here = np.add.reduceat(in_degrees, starts) if starts else np.zeros(0, np.int64)
            edges = (sizes.sum(axis=0) - ends_here + loops).tolist()
            types = [chunks[number].edge_type_id for number, _ in dealt.places()]
            by_range = HalfEdgesByRange(self.shift, sizes, types, edges, dealt.read)
            kept.keep(by_range, stack.pop_all(), self.metadata, writer.destination)

        chunks = reader.chunks()
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(temporary_folder()))
            file = stack.enter_context((scratch / "half_edges").open("w+b", buffering=0))
            dealt = HalfEdges(file.fileno(), self.nodes, self.shift)
            self.deal(dealt, reader, chunks)
            sizes = np.diff(dealt.bounds(), axis=1)  # in the order of blocks, as `read` is from now on
            return self.write_graph(writer, write_neighbours, lambda: int(found[0][0].sum()))

    def deal(self, dealt: HalfEdges, reader: EdgeReader, chunks: Sequence[EdgeChunk]) -> None:
        """Write the half-edges of chunks to a file, by range of nodes."""
        with self.progress.step("Splitting edges", sum(self.metadata.num_edges), "edges") as advance:

            def deal(numbered: tuple[int, EdgeChunk]) -> None:
                number, chunk = numbered
                edge_type = self.metadata.edge_types[chunk.edge_type_id]
                types = map(self.metadata.node_type_id, (edge_type.src, edge_type.dst))
                first_src, first_dst = (self.metadata.node_offsets[type_id] for type_id in types)
                for place, block in enumerate(reader.blocks(chunk)):
                    dealt.add(block.src, block.dst, first_src, first_dst, (number, place))
                    advance(len(block.src))

            deque(map_in_threads(deal, enumerate(chunks)), maxlen=0)

    def sort(
        self, dealt: HalfEdges | CopiedHalfEdges, numbers: range, stream: BinaryIO
    ) -> tuple[Counts, Degrees, Degrees]:
        """Write the neighbours of some consecutive ranges.

        Args:
            dealt: Half-edges of these ranges.
            numbers: The ranges.
            stream: A file; gets the neighbours, node by node.

        Returns:
            The number of self-loops of each range, (ranges,) int64; degrees and in-degrees of the nodes,
            (nodes of the ranges,) int64.
        """
        begin = dealt.nodes_of(numbers.start).start
        count = max((dealt.nodes_of(number).stop for number in numbers), default=begin) - begin
        unique, in_degrees = np.zeros(count, np.int64), np.zeros(count, np.int64)
        loops = np.zeros(len(numbers), np.int64)

        def sort(number: int) -> tuple[int, Neighbours]:
            nodes = dealt.nodes_of(number)
            own = slice(nodes.start - begin, nodes.stop - begin)
            return self._sorted(dealt, number, in_degrees[own], unique[own])

        with self.progress.step("Writing the graph", count, "nodes") as advance:
            for number, (found, packed) in zip(numbers, map_in_threads(sort, numbers), strict=True):
                stream.write(packed.data)  # tofile() does not report every full disk
                loops[number - numbers.start] = found
                nodes = dealt.nodes_of(number)
                advance(nodes.stop - nodes.start)
        return loops, unique, in_degrees

    def _sorted(
        self, dealt: HalfEdges | CopiedHalfEdges, number: int, in_degrees: Degrees, unique: Degrees
    ) -> tuple[int, Neighbours]:
        """Sort a range; return its number of self-loops, and its neighbours end to end."""
        rows, neighbours = dealt.read(number)
        packed = np.empty(len(rows), f"i{self.width}")
        bits = max(self.nodes - 1, 1).bit_length()
        found = in_degrees, unique, packed, digit_room(len(rows))
        loops = sort_range(dealt.nodes_of(number).start, bits, rows, neighbours, *found)
        return loops, packed[: unique.sum()]

    def write_graph(
        self,
        writer: ArtifactWriter,
        write_neighbours: Callable[[BinaryIO], tuple[Degrees, Degrees]],
        count_loops: Callable[[], int],
    ) -> Counters:
        """Write the files of the stage; return its figures.

        Args:
            writer: Writes them.
            write_neighbours: Writes the neighbours of all nodes; returns degrees and in-degrees, (nodes,)
                int64.
            count_loops: Returns the number of self-loops, after that.

        Peak memory: 24 bytes a node, and that of ``write_neighbours``.
        """
        with writer.create(layout.PREPARED_GRAPH) as new, new.path.open("wb") as stream:
            new.keep_copy = True
            stream.seek(header_bytes(self.nodes))
            unique, in_degrees = write_neighbours(stream)
            stream.seek(0)
            offsets = np.zeros(self.nodes + 1, np.int64)
            np.cumsum(unique, out=offsets[1:])
            write_header(stream, offsets, self.width)
        writer.write_array(layout.PREPARED_IN_DEGREES, in_degrees)
        stats: dict[str, Any] = {
            "version": STATS_VERSION,
            "num_nodes": self.nodes,
            "num_half_edges": int(unique.sum()),
            "num_edges": int(in_degrees.sum()),
            "self_loops": count_loops(),
        }
        proof = {"degrees_sha256": hashlib.sha256(unique.data).hexdigest()}
        writer.write_json(layout.PREPARED_STATS, {**stats, **proof})
        return {key: value for key, value in stats.items() if key != "version"}
