"""Write the symmetric homogeneous graph that the engines read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from partition_ops import artifacts
from partition_ops.config import PrepareConfig
from partition_ops.graph.dropped import HiddenEdges
from partition_ops.graph.edges import EdgeBlock, EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata, load_metadata
from partition_ops.graph.parhip import write_header
from partition_ops.parallel import map_in_threads
from partition_ops.prepare import symmetric
from partition_ops.prepare.parmetis_text import prepare_parmetis_text
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, check_apart, input_objects, run_task

STATS_VERSION = 1
ROWS_AT_ONCE = 1 << 20


def prepare_graph(
    config: PrepareConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``prepare/graph.parhip``, ``prepare/in_degrees.npy`` and ``prepare/stats.json``.

    With the format ``parmetis``, text files are written instead: see `prepare_parmetis_text`.

    Every edge is there in both directions, on homogeneous IDs; duplicates, also across edge types and
    directions, are merged; self-loops, and edges that validation has dropped or excluded, are left out. The
    in-degrees count all edges but the latter, nothing merged, as ``dgl.distributed.partition_graph`` balances
    them.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read twice.
        destination: Root of the run.
        progress: Shows the edges read.

    Returns:
        Numbers of nodes and half-edges, and of self-loops left out.

    Raises:
        InvalidInputError: An edge file cannot be read.

    Peak memory: 28 bytes a node, 8 bytes an edge (16 beyond 2**31 nodes), and as many chunks of edges as
    there are cores.
    """
    if config.format == "parmetis":
        return prepare_parmetis_text(config, source, destination, progress=progress)
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    hidden = HiddenEdges(destination)

    def work(task: Task) -> dict[str, Any]:
        reader = EdgeReader(source, metadata, hidden.ids(metadata))
        return _Preparation(metadata, reader, task, progress or NoProgress()).write()

    inputs = input_objects(source, metadata)
    options = {**config.options(), **hidden.digests}
    return run_task("prepare", destination, options=options, inputs=inputs, work=work)


class _Preparation:
    """The two passes over the edges: count the neighbours of each node, then fill them in."""

    def __init__(self, metadata: GraphMetadata, reader: EdgeReader, task: Task, progress: Progress) -> None:
        self.metadata = metadata
        self.reader = reader
        self.task = task
        self.progress = progress

    def write(self) -> dict[str, Any]:
        nodes = sum(self.metadata.num_nodes)
        degrees, in_degrees, self_loops = self._count(nodes)
        ends = np.cumsum(degrees)
        begins = ends - degrees
        neighbours = self._fill(begins, int(degrees.sum()), nodes)
        begins = ends - degrees  # filling has moved them
        unique = symmetric.sort_and_merge(begins, ends, neighbours)
        self._write_graph(begins, unique, neighbours)
        self.task.write_array(artifacts.PREPARED_IN_DEGREES, in_degrees)
        stats = {
            "version": STATS_VERSION,
            "num_nodes": nodes,
            "num_half_edges": int(unique.sum()),
            "num_edges": int(in_degrees.sum()),
            "self_loops": self_loops,
        }
        self.task.write_json(artifacts.PREPARED_STATS, stats)
        return {key: value for key, value in stats.items() if key != "version"}

    def _count(self, nodes: int) -> tuple[symmetric.Counts, symmetric.Counts, int]:
        degrees, in_degrees = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        self_loops = 0
        for src, dst in self._homogeneous_blocks("Counting neighbours"):
            self_loops += symmetric.count(src, dst, degrees, in_degrees)
        return degrees, in_degrees, self_loops

    def _fill(self, positions: symmetric.Counts, half_edges: int, nodes: int) -> symmetric.Neighbours:
        neighbours = np.empty(half_edges, np.int32 if nodes <= 2**31 else np.int64)
        for src, dst in self._homogeneous_blocks("Filling in neighbours"):
            symmetric.fill(src, dst, positions, neighbours)
        return neighbours

    def _homogeneous_blocks(self, title: str) -> Iterator[tuple[symmetric.Counts, symmetric.Counts]]:
        offsets = self.metadata.node_offsets
        with self.progress.step(title, sum(self.metadata.num_edges), "edges") as advance:
            for chunk, blocks in map_in_threads(self._read, self.reader.chunks()):
                edge_type = self.metadata.edge_types[chunk.edge_type_id]
                src_offset = offsets[self.metadata.node_type_id(edge_type.src)]
                dst_offset = offsets[self.metadata.node_type_id(edge_type.dst)]
                for block in blocks:
                    yield block.src + src_offset, block.dst + dst_offset
                    advance(len(block.src))

    def _read(self, chunk: EdgeChunk) -> tuple[EdgeChunk, list[EdgeBlock]]:
        return chunk, list(self.reader.blocks(chunk))

    def _write_graph(
        self, begins: symmetric.Counts, unique: symmetric.Counts, neighbours: symmetric.Neighbours
    ) -> None:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(unique)])
        with self.task.destination.create(artifacts.PREPARED_GRAPH) as new, new.path.open("wb") as stream:
            write_header(stream, offsets)
            self._write_neighbours(stream, begins, unique, neighbours)
        self.task.wrote(new.published())

    def _write_neighbours(
        self,
        stream: BinaryIO,
        begins: symmetric.Counts,
        unique: symmetric.Counts,
        neighbours: symmetric.Neighbours,
    ) -> None:
        with self.progress.step("Writing the graph", len(unique), "nodes") as advance:
            for first in range(0, len(unique), ROWS_AT_ONCE):
                rows = slice(first, first + ROWS_AT_ONCE)
                symmetric.compact(begins[rows], unique[rows], neighbours).tofile(stream)
                advance(len(unique[rows]))
