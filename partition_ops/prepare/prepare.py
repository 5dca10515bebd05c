"""Write the symmetric homogeneous graph that the engines read: a counting sort of its edges."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops import artifacts
from partition_ops.config import PrepareConfig
from partition_ops.graph.dropped import HiddenEdges
from partition_ops.graph.edges import EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata, load_metadata
from partition_ops.graph.parhip import write_header
from partition_ops.parallel import cores, map_in_threads
from partition_ops.prepare import symmetric
from partition_ops.prepare.parmetis_text import prepare_parmetis_text
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, check_apart, input_objects, run_task
from partition_ops.temporary import temporary_folder

STATS_VERSION = 1
ROWS_AT_ONCE = 1 << 18


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
        source: Root of the input graph; its edges are read once.
        destination: Root of the run.
        progress: Shows the edges read.

    Returns:
        Numbers of nodes and half-edges, and of self-loops left out.

    Raises:
        InvalidInputError: An edge file cannot be read.

    Peak memory: 24 bytes a node and 16 for each core, 8 bytes an edge (16 beyond 2**31 nodes), and a chunk
    of edges. As many bytes an edge again go through temporary files (below ``TMPDIR``).
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
    """One pass over the input counts the neighbours of each node, one over a copy fills them in."""

    def __init__(self, metadata: GraphMetadata, reader: EdgeReader, task: Task, progress: Progress) -> None:
        self.metadata = metadata
        self.reader = reader
        self.task = task
        self.progress = progress
        self.nodes = sum(metadata.num_nodes)
        self.dtype = np.dtype(np.int32 if self.nodes <= 2**31 else np.int64)

    def write(self) -> dict[str, Any]:
        with temporary_folder() as scratch:
            degrees, in_degrees, self_loops = self._count(Path(scratch))
            ends = np.cumsum(degrees)
            begins = ends - degrees
            ranges = split_evenly(ends, cores())
            neighbours = self._fill(Path(scratch), begins.copy(), int(degrees.sum()), ranges)
        unique = np.empty(self.nodes, np.int64)
        in_ranges(
            ranges, lambda rows: symmetric.sort_and_merge(begins[rows], ends[rows], neighbours, unique[rows])
        )
        self._write_graph(begins, unique, neighbours)
        self.task.write_array(artifacts.PREPARED_IN_DEGREES, in_degrees)
        stats = {
            "version": STATS_VERSION,
            "num_nodes": self.nodes,
            "num_half_edges": int(unique.sum()),
            "num_edges": int(in_degrees.sum()),
            "self_loops": self_loops,
        }
        proof = {"degrees_sha256": hashlib.sha256(unique.data).hexdigest()}
        self.task.write_json(artifacts.PREPARED_STATS, {**stats, **proof})
        return {key: value for key, value in stats.items() if key != "version"}

    def _count(self, scratch: Path) -> tuple[symmetric.Counts, symmetric.Counts, int]:
        """Degrees, in-degrees and the number of self-loops; the edges go to ``scratch``, a file a chunk."""
        counts = [np.zeros((2, self.nodes), np.int64) for _ in range(cores())]  # one for each thread at work
        title, edges = "Counting neighbours", sum(self.metadata.num_edges)
        with self.progress.step(title, edges, "edges") as advance:

            def count(item: tuple[int, EdgeChunk]) -> int:
                number, chunk = item
                degrees, in_degrees = mine = counts.pop()
                loops = 0
                with (scratch / str(number)).open("wb") as stream:
                    for block in self.reader.blocks(chunk):
                        pairs = np.empty((len(block.src), 2), self.dtype)
                        loops += symmetric.count(
                            block.src, block.dst, *self._offsets(chunk), degrees, in_degrees, pairs
                        )
                        pairs.tofile(stream)
                        advance(len(pairs))
                counts.append(mine)
                return loops

            self_loops = sum(map_in_threads(count, enumerate(self.reader.chunks())))
        total = counts.pop()
        while counts:
            total += counts.pop()
        return total[0], total[1], self_loops

    def _offsets(self, chunk: EdgeChunk) -> tuple[int, int]:
        """Homogeneous IDs of the first nodes of the types of the sources and destinations."""
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        src, dst = (self.metadata.node_type_id(name) for name in (edge_type.src, edge_type.dst))
        return self.metadata.node_offsets[src], self.metadata.node_offsets[dst]

    def _fill(
        self, scratch: Path, positions: symmetric.Counts, half_edges: int, ranges: list[slice]
    ) -> symmetric.Neighbours:
        neighbours = np.empty(half_edges, self.dtype)
        title, edges = "Filling in neighbours", sum(self.metadata.num_edges)
        with self.progress.step(title, edges, "edges") as advance:
            for number in range(len(self.reader.chunks())):
                path = scratch / str(number)
                pairs = np.fromfile(path, self.dtype).reshape(-1, 2)
                path.unlink()

                def enter(rows: slice, pairs: symmetric.Neighbours = pairs) -> None:
                    symmetric.fill(pairs, rows.start, rows.stop, positions, neighbours)

                in_ranges(ranges, enter)
                advance(len(pairs))
        return neighbours

    def _write_graph(
        self, begins: symmetric.Counts, unique: symmetric.Counts, neighbours: symmetric.Neighbours
    ) -> None:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(unique)])
        with self.task.destination.create(artifacts.PREPARED_GRAPH) as new, new.path.open("wb") as stream:
            new.read_again = True
            first = write_header(stream, offsets)
            stream.flush()
            with self.progress.step("Writing the graph", self.nodes, "nodes") as advance:

                def write(rows: slice) -> None:
                    packed = symmetric.compact(begins[rows], unique[rows], neighbours)
                    write_at(stream.fileno(), packed, first + int(offsets[rows.start]) * packed.itemsize)
                    advance(rows.stop - rows.start)

                blocks = [
                    slice(a, min(a + ROWS_AT_ONCE, self.nodes)) for a in range(0, self.nodes, ROWS_AT_ONCE)
                ]
                deque(map_in_threads(write, blocks), maxlen=0)
        self.task.wrote(new.published())


def split_evenly(ends: symmetric.Counts, count: int) -> list[slice]:
    """Ranges of nodes with about as many neighbours each.

    Args:
        ends: (nodes,) int64, where the neighbours of each node end.
        count: How many ranges.
    """
    total = int(ends[-1]) if len(ends) else 0
    places = [0, *np.searchsorted(ends, [total * i // count for i in range(1, count)]).tolist(), len(ends)]
    return [slice(a, b) for a, b in pairwise(places)]


def in_ranges(ranges: list[slice], work: Callable[[slice], None]) -> None:
    """Do something for each range of nodes, each in a thread of its own."""
    deque(map_in_threads(work, ranges), maxlen=0)


def write_at(file: int, array: symmetric.Counts, position: int) -> None:
    """Write all bytes of an array at a place in a file."""
    rest = memoryview(array.data).cast("B")
    while len(rest):
        written = os.pwrite(file, rest, position)
        rest, position = rest[written:], position + written
