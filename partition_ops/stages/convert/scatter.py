"""Scatter: read each edge once, and put it into the bucket of the partition that owns it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.new_ids import Ids
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.errors import UsageError
from partition_ops.stages.convert.buckets import BucketIndex, bucket_dtype, checksums_of
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.cost import EDGE_BYTES, segment_edges
from partition_ops.stages.convert.edge_loops import (
    Counts,
    Owners,
    count_owners,
    look_up,
    split_edges,
)
from partition_ops.stages.convert.feature_buckets import scatter_features
from partition_ops.stages.convert.options import MEMORY_SHARE
from partition_ops.stages.convert.plan import Plan, read_plan
from partition_ops.system.memory import planned_memory
from partition_ops.system.parallel import cores

BLOCK_BYTES = 80 << 20  # text and parsed columns of the current block


def scatter_group(conversion: Conversion, group: int) -> StageResult:
    """Write ``scratch/convert/buckets/group<i>/edges.bin``: the edges of some chunks, by partition.

    For a group of features, write ``features.bin``; see `partition_ops.stages.convert.feature_buckets`.

    ``edges.json`` beside it is the index; see `BucketIndex`. The edges have new node IDs already. IDs take 4
    bytes if all fit. The partition of the destination owns an edge.

    Args:
        conversion: The conversion, which has been planned; the edges of the group are read once.
        group: Which group of the plan.

    Returns:
        The number of edges.

    Raises:
        UsageError: There is no such group.
        InvalidInputError: An edge file cannot be read, or the assignment does not fit the graph.

    Peak memory: 12 bytes a node, 180 MiB, and what pyarrow holds of a row group: `scatter_memory`, in
    addition to the conversion's.
    """
    plan = read_plan(conversion.destination)
    if group not in plan.groups:
        raise UsageError(f"There is no group {group}", expected=f"0 to {len(plan.groups) - 1}")

    def work(task: ArtifactWriter) -> Counters:
        if group in plan.feature_groups:
            chunks = plan.features[group - len(plan.edges)]
            return {"edges": 0, "feature_rows": scatter_features(conversion, task, group, chunks)}
        return {"edges": _scatter_chunks(conversion, task, plan, group)}

    return conversion.scatter_task(group, work).run()


def _scatter_chunks(conversion: Conversion, task: ArtifactWriter, plan: Plan, group: int) -> int:
    """Write the edges of some chunks; return their number."""
    metadata = conversion.metadata
    dropped = conversion.dropped.ids(metadata)
    reader = EdgeReader(conversion.source, metadata, dropped, starts=plan.starts)
    begin, end = plan.edges[group]
    chunks = reader.chunks()[begin:end]
    index = BucketIndex()
    with task.create(layout.bucket(group, layout.EDGES)) as new, new.path.open("wb") as stream:
        new.keep_copy = True
        most = _segment_edges(conversion)
        for chunk in chunks:
            waiting: list[_Block] = []
            for block in _blocks(conversion, reader, chunk, most):
                if sum(len(other.src) for other in waiting) + len(block.src) > most:
                    _write_segment(conversion, chunk, waiting, stream, index)
                    waiting = []
                waiting.append(block)
            _write_segment(conversion, chunk, waiting, stream, index)
    task.write_json(layout.bucket(group, layout.EDGE_INDEX), index.to_json())
    return sum(map(sum, index.counts))


def scatter_memory(conversion: Conversion) -> int:
    """Return the bytes that a group takes at a time."""
    return BLOCK_BYTES + EDGE_BYTES * _segment_edges(conversion)


def _segment_edges(conversion: Conversion) -> int:
    return segment_edges(planned_memory(conversion.config.memory, MEMORY_SHARE), cores())


def _blocks(conversion: Conversion, reader: EdgeReader, chunk: EdgeChunk, most: int) -> Iterator[_Block]:
    """Yield the edges of a chunk with new IDs, at most ``most`` at a time."""
    metadata, order = conversion.metadata, conversion.order
    edge_type = metadata.edge_types[chunk.edge_type_id]
    src, dst = (metadata.node_offsets[metadata.node_type_id(n)] for n in (edge_type.src, edge_type.dst))
    for block in reader.blocks(chunk):
        for begin in range(0, len(block.src), most):
            part = slice(begin, begin + most)
            new_src = look_up(block.src[part], src, order.new_ids)
            new_dst = look_up(block.dst[part], dst, order.new_ids)
            counts = np.zeros(order.assignment.num_parts, np.int64)
            owners = count_owners(new_dst, order.starts, counts)
            yield _Block(block.edge_ids[part], new_src, new_dst, owners, counts)


def _write_segment(
    conversion: Conversion, chunk: EdgeChunk, blocks: list[_Block], stream: BinaryIO, index: BucketIndex
) -> None:
    order = conversion.order
    counts = np.zeros(order.assignment.num_parts, np.int64)
    for block in blocks:
        counts += block.counts
    if not counts.any():
        return
    segment: Ids = np.empty(3 * int(counts.sum()), bucket_dtype(conversion.metadata))
    done = np.zeros_like(counts)
    for block in blocks:
        ends = block.src, block.dst
        split_edges(*ends, block.edge_ids, block.owners, order.starts, counts, done, segment)
    stream.write(segment.data)
    checksums = None if conversion.one_process else checksums_of(segment, 3 * counts)
    index.add(chunk.edge_type_id, counts, checksums)


class _Block(NamedTuple):
    """Edges of a chunk: type-wise edge IDs, new IDs of their ends, and the partition of each destination.

    ``counts`` says how many each partition owns.
    """

    edge_ids: Ids
    src: Ids
    dst: Ids
    owners: Owners
    counts: Counts
