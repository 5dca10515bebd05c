"""Write the symmetric homogeneous graph that the engines read."""

from __future__ import annotations

import hashlib
from collections import deque
from functools import partial
from pathlib import Path

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.parhip import header_bytes, neighbour_bytes, write_header
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task, input_objects
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.formats.parmetis.prepare_text import prepare_text_task
from partition_ops.stages.prepare.half_edges import HalfEdges, Neighbours, digit_room, sort_range
from partition_ops.stages.prepare.options import PrepareConfig, range_shift
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

STATS_VERSION = 1


def prepare_graph(
    config: PrepareConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``prepare/graph.parhip``, ``prepare/in_degrees.npy`` and ``prepare/stats.json``.

    With the format ``parmetis``, text files are written instead: see `prepare_text_task`.

    The graph holds every edge in both directions, on homogeneous IDs. Duplicates are merged, also across edge
    types and directions. Self-loops, and edges that validation has dropped or excluded, are left out. The
    in-degrees count all edges except those that validation has dropped or excluded, duplicates and
    self-loops included, as ``dgl.distributed.partition_graph`` balances them.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read once.
        destination: Root of the run.
        progress: Shows the edges read.

    Returns:
        The numbers of nodes, of half-edges, and of self-loops left out.

    Raises:
        InvalidInputError: An edge file cannot be read.

    Peak memory: 32 bytes a node, and for each core a block of edges with a copy. Or, if that is more, for
    each core 20 bytes a half-edge of one of 512 or more ranges of nodes, and 8 of five others (up to twice
    that beyond 2**31 nodes). 12 to 16 bytes an edge go through a temporary file (below ``TMPDIR``).
    """
    if config.format == "parmetis":
        return prepare_text_task(
            source,
            destination,
            graph_name=config.graph_name,
            weights=config.weights,
            attributes=config.attributes,
            progress=progress,
        ).run()
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    hidden = ListedEdges(destination, layout.DROPPED, layout.EXCLUDED)

    def work(writer: ArtifactWriter) -> Counters:
        reader = EdgeReader(source, metadata, hidden.ids(metadata))
        return _Preparation(metadata, reader, writer, progress or NoProgress()).write()

    task = Task(
        "prepare",
        destination,
        work,
        options={**config.options(), **hidden.digests},
        inputs=input_objects(source, metadata),
        outputs=layout.PREPARED,
    )
    return task.run()


class _Preparation:
    """Reads the input once and splits its edges by range of nodes, then sorts each range by itself.

    Random access stays within a range, which fits in the processor's cache; memory holds a few ranges, not
    the graph.
    """

    def __init__(
        self, metadata: GraphMetadata, reader: EdgeReader, writer: ArtifactWriter, progress: Progress
    ) -> None:
        self.metadata = metadata
        self.reader = reader
        self.writer = writer
        self.progress = progress
        self.nodes = sum(metadata.num_nodes)
        self.shift = range_shift(self.nodes)
        self.width = neighbour_bytes(self.nodes, sum(metadata.num_edges))
        self.in_degrees = np.zeros(self.nodes, np.int64)
        self.unique = np.zeros(self.nodes, np.int64)

    def write(self) -> Counters:
        with temporary_folder() as scratch, (Path(scratch) / "half_edges").open("w+b", buffering=0) as stream:
            dealt = HalfEdges(stream.fileno(), self.nodes, self.shift)
            self._deal(dealt)
            self_loops = self._write_graph(dealt)
        self.writer.write_array(layout.PREPARED_IN_DEGREES, self.in_degrees)
        stats = {
            "version": STATS_VERSION,
            "num_nodes": self.nodes,
            "num_half_edges": int(self.unique.sum()),
            "num_edges": int(self.in_degrees.sum()),
            "self_loops": self_loops,
        }
        proof = {"degrees_sha256": hashlib.sha256(self.unique.data).hexdigest()}
        self.writer.write_json(layout.PREPARED_STATS, {**stats, **proof})
        return {key: value for key, value in stats.items() if key != "version"}

    def _deal(self, dealt: HalfEdges) -> None:
        """Write the half-edges to a temporary file, by range of nodes."""
        with self.progress.step("Splitting edges", sum(self.metadata.num_edges), "edges") as advance:

            def deal(chunk: EdgeChunk) -> None:
                edge_type = self.metadata.edge_types[chunk.edge_type_id]
                types = map(self.metadata.node_type_id, (edge_type.src, edge_type.dst))
                first_src, first_dst = (self.metadata.node_offsets[type_id] for type_id in types)
                for block in self.reader.blocks(chunk):
                    dealt.add(block.src, block.dst, first_src, first_dst)
                    advance(len(block.src))

            chunks = self.reader.chunks()
            deque(map_in_threads(deal, chunks), maxlen=0)

    def _write_graph(self, dealt: HalfEdges) -> int:
        """Write the graph, fill in the degrees, and return the number of self-loops."""
        loops = 0
        with self.writer.destination.create(layout.PREPARED_GRAPH) as new, new.path.open("wb") as stream:
            new.keep_copy = True
            stream.seek(header_bytes(self.nodes))
            with self.progress.step("Writing the graph", self.nodes, "nodes") as advance:
                ranges = map_in_threads(partial(self._sorted, dealt), range(dealt.ranges))
                for number, (found, packed) in enumerate(ranges):
                    stream.write(packed.data)  # tofile() does not report every full disk
                    loops += found
                    advance(len(self.unique[dealt.nodes_of(number)]))
            stream.seek(0)
            offsets = np.zeros(self.nodes + 1, np.int64)
            np.cumsum(self.unique, out=offsets[1:])
            write_header(stream, offsets, self.width)
        self.writer.wrote(new.get_artifact())
        return loops

    def _sorted(self, dealt: HalfEdges, number: int) -> tuple[int, Neighbours]:
        """Sort a range; return its number of self-loops, and its neighbours end to end."""
        nodes = dealt.nodes_of(number)
        rows, neighbours = dealt.read(number)
        packed = np.empty(len(rows), f"i{self.width}")
        unique = self.unique[nodes]
        bits = max(self.nodes - 1, 1).bit_length()
        found = self.in_degrees[nodes], unique, packed, digit_room(len(rows))
        loops = sort_range(nodes.start, bits, rows, neighbours, *found)
        return loops, packed[: unique.sum()]
