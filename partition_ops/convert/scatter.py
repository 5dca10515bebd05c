"""Scatter: each edge is read once and put into the bucket of the partition that owns it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.config import ConvertConfig
from partition_ops.graph.assignment import Assignment, read_assignment
from partition_ops.graph.dropped import DroppedEdges
from partition_ops.graph.edges import EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata, load_metadata
from partition_ops.parallel import map_in_threads
from partition_ops.progress import Advance, NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, check_apart, forget_task, input_objects, run_task

COUNTS_VERSION = 1
Ids = npt.NDArray[np.int64]


def scatter_edges(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``scratch/convert/part<i>/edges-<edge type ID>-<chunk>.npy``, the buckets, and their sizes.

    A bucket is a (3, n) int64 array: homogeneous ID of the source, homogeneous ID of the destination,
    type-wise ID of the edge, all of the input graph, in the order of the edge IDs. The partition of the
    destination owns an edge. Empty buckets are not written.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read once.
        destination: Root of the run, where ``partition`` has been done.
        progress: Shows the edges read.

    Returns:
        The number of partitions and of edges in each.

    Raises:
        InvalidInputError: An edge file cannot be read, or the assignment does not fit the graph.

    Peak memory: 4 bytes a node, and 48 bytes an edge of as many chunks as there are cores.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    inputs = input_objects(source, metadata)
    dropped = DroppedEdges(destination)

    def work(task: Task) -> dict[str, Any]:
        _forget_partitions(destination)
        assignment = read_assignment(destination.child(artifacts.ASSIGNMENT), metadata)
        reader = EdgeReader(source, metadata, dropped.ids(metadata))
        scatter = _Scatter(metadata, assignment, reader, task)
        with (progress or NoProgress()).step("Scattering edges", sum(metadata.num_edges), "edges") as advance:
            counts = scatter.run(advance)
        counts_by_type = dict(zip(map(str, metadata.edge_types), counts.tolist(), strict=True))
        task.write_json(artifacts.BUCKET_COUNTS, {"version": COUNTS_VERSION, "edges": counts_by_type})
        return {"num_parts": assignment.num_parts, "edges_per_part": counts.sum(axis=0).tolist()}

    return run_task(
        "convert-scatter",
        destination,
        options={**config.options(), "dropped": dropped.digests},
        inputs=inputs,
        after=["partition"],
        work=work,
    )


def _forget_partitions(destination: Store) -> None:
    """Remove the partitions of an earlier assignment: there may have been more of them."""
    prefix, suffix = artifacts.record("convert-part").removesuffix(".json"), ".json"
    for entry in list(destination.list(prefix)):
        forget_task(destination, entry.key.removeprefix(f"{artifacts.RECORDS}/").removesuffix(suffix))


class _Scatter:
    """Scatters all chunks of a graph, several at a time."""

    def __init__(
        self, metadata: GraphMetadata, assignment: Assignment, reader: EdgeReader, task: Task
    ) -> None:
        self.metadata = metadata
        self.assignment = assignment
        self.reader = reader
        self.task = task

    def run(self, advance: Advance) -> Ids:
        """(edge types, partitions) int64, the number of edges in the buckets."""
        counts = np.zeros((len(self.metadata.edge_types), self.assignment.num_parts), np.int64)

        def scatter(chunk: EdgeChunk) -> tuple[EdgeChunk, Ids]:
            buckets = self._buckets(chunk, advance)
            for part, bucket in enumerate(buckets):
                if bucket.shape[1]:
                    self.task.write_array(artifacts.bucket(part, chunk.edge_type_id, chunk.index), bucket)
            return chunk, np.array([bucket.shape[1] for bucket in buckets])

        for chunk, sizes in map_in_threads(scatter, self.reader.chunks()):
            counts[chunk.edge_type_id] += sizes
        return counts

    def _buckets(self, chunk: EdgeChunk, advance: Advance) -> list[Ids]:
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        offsets = self.metadata.node_offsets
        src_offset = offsets[self.metadata.node_type_id(edge_type.src)]
        dst_offset = offsets[self.metadata.node_type_id(edge_type.dst)]
        pieces: list[list[Ids]] = [[] for _ in range(self.assignment.num_parts)]
        for block in self.reader.blocks(chunk):
            rows = np.stack([block.src + src_offset, block.dst + dst_offset, block.edge_ids])
            for part, piece in self._split(rows):
                pieces[part].append(piece)
            advance(len(block.src))
        return [np.concatenate(piece, axis=1) if piece else np.empty((3, 0), np.int64) for piece in pieces]

    def _split(self, rows: Ids) -> list[tuple[int, Ids]]:
        owners = self.assignment.parts[rows[1]].astype(np.uint16)
        order = np.argsort(owners, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=self.assignment.num_parts))
        pieces = np.split(rows[:, order], ends[:-1], axis=1)
        return [(part, piece) for part, piece in enumerate(pieces) if piece.shape[1]]
