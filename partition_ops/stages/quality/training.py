"""What training on the partitions is expected to cost: ``training`` in ``quality/report.json``."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment, read_assignment
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import UsageError
from partition_ops.stages.quality.plan import MEMORY_SHARE, MOST_WORK, model_bytes, work
from partition_ops.storage import Store
from partition_ops.system.memory import planned_memory
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.traffic.figures import training_figures
from partition_ops.traffic.model import Mask, Sampling, Traffic, TrafficModel
from partition_ops.traffic.options import SamplingOptions
from partition_ops.traffic.sampled_edges import read_sampled_edges
from partition_ops.traffic.train_nodes import read_train_nodes, train_types


def training_report(
    options: SamplingOptions, source: Store, metadata: GraphMetadata, destination: Store, num_hops: int
) -> dict[str, Any]:
    """Return what the trainers of the partitions are expected to read from each other.

    Args:
        options: The train nodes, and how trainers sample.
        source: Root of the input graph.
        metadata: Its metadata.
        destination: Root of the run, with the assignment and the lists of dropped edges.
        num_hops: Number of hops of the halos; without one, trainers only sample edges in their partition.

    Returns:
        ``training`` of ``schemas/quality_report.schema.json``. If the model would take too long, it has the
        reason instead of figures.

    Raises:
        UsageError: There is no such node type or mask, or a feature is not a mask.
        InvalidInputError: A file of the input is missing or damaged.

    Peak memory: 6 bytes a node, for each core a block of edges, and `model_bytes`; if these are more than a
    quarter of the memory, they are mapped files below ``TMPDIR``. Time: the edges are read once, with passes
    over them as `TrafficModel` says.
    """
    types = train_types(metadata, options.train_nodes or ())
    assignment = read_assignment(destination.child(layout.ASSIGNMENT), metadata)
    document = {
        "options": {
            "train_nodes": [str(one) for one in types],
            "fanouts": list(options.fanouts),
            "batch_size": options.batch_size,
        }
    }
    passes = work(metadata, len(options.fanouts), assignment.num_parts)
    if passes > MOST_WORK:
        reason = f"edges times layers times partitions are {passes:,}, more than {MOST_WORK:,}"
        return {**document, "left_out": f"predicting them would take too long: {reason}"}
    try:
        train = read_train_nodes(source, metadata, types)
    except UsageError as error:
        if options.train_nodes:
            raise
        return {**document, "left_out": error.summary()}  # a feature train_mask that is something else
    traffic = _traffic(options.sampling, source, metadata, destination, train, assignment, num_hops)
    row_bytes = _row_bytes(source, metadata)
    named = dict(zip(metadata.node_types, row_bytes, strict=True))
    return {**document, "row_bytes": named, **training_figures(traffic, row_bytes)}


def _traffic(
    sampling: Sampling,
    source: Store,
    metadata: GraphMetadata,
    destination: Store,
    train: Mask,
    assignment: Assignment,
    num_hops: int,
) -> Traffic:
    dropped = ListedEdges(destination, layout.DROPPED).ids(metadata)
    offsets = metadata.node_offsets
    ranges = [(offsets[one], offsets[one + 1], one) for one in range(len(metadata.node_types))]
    parts, inside = assignment.parts, assignment.parts if num_hops == 0 else None
    with ExitStack() as stack:
        folder = None
        if model_bytes(metadata, len(sampling.fanouts)) > planned_memory(None, MEMORY_SHARE):
            folder = Path(stack.enter_context(temporary_folder()))
        edges = read_sampled_edges(source, metadata, dropped, parts=inside, folder=folder)
        model = TrafficModel(edges, train, sampling, node_ranges=ranges, folder=folder)
        return model.traffic(parts, assignment.num_parts)


def _row_bytes(source: Store, metadata: GraphMetadata) -> list[int]:
    """Return by node type ID the bytes of a row of all its features."""
    found, readers = dict.fromkeys(metadata.node_types, 0), feature_readers(source, metadata)
    for feature in metadata.node_features:
        header = readers[feature.key].header()
        if header is not None:
            found[feature.type_name] += header[0].itemsize * math.prod(header[1])
    return list(found.values())
