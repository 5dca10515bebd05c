"""What training on the partitions is expected to cost: ``training`` in ``quality/report.json``."""

from __future__ import annotations

import math
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import UsageError
from partition_ops.storage import Store
from partition_ops.traffic.figures import training_figures
from partition_ops.traffic.hot_rows import Cacheable, CacheCurve
from partition_ops.traffic.of_run import model_of_run
from partition_ops.traffic.options import SamplingOptions
from partition_ops.traffic.plan import MOST_WORK, work
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

    Peak memory: that of `model_of_run`, and 45 bytes a node for the curve of caches. Time: the edges are read
    once, with passes over them as `TrafficModel` says.
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
    row_bytes = _row_bytes(source, metadata)
    named = dict(zip(metadata.node_types, row_bytes, strict=True))
    curve = CacheCurve(Cacheable.of(metadata, assignment)) if any(row_bytes) else None
    run = source, metadata, destination, train, assignment, num_hops
    with model_of_run(options.sampling, *run) as model:
        look = curve.add if curve is not None else None
        traffic = model.traffic(assignment.parts, assignment.num_parts, look)
    saved = {} if curve is None else {"cache": curve.figures(traffic)}
    return {**document, "row_bytes": named, **training_figures(traffic, row_bytes), **saved}


def _row_bytes(source: Store, metadata: GraphMetadata) -> list[int]:
    """Return by node type ID the bytes of a row of all its features."""
    found, readers = dict.fromkeys(metadata.node_types, 0), feature_readers(source, metadata)
    for feature in metadata.node_features:
        header = readers[feature.key].header()
        if header is not None:
            found[feature.type_name] += header[0].itemsize * math.prod(header[1])
    return list(found.values())
