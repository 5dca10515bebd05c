"""``training`` of the quality report: what an assignment is expected to cost trainers, as JSON."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Sequence
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.tasks import input_objects
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes
from partition_ops.traffic.figures import training_figures
from partition_ops.traffic.hot_rows import Cacheable, CacheCurve
from partition_ops.traffic.model import TrafficModel
from partition_ops.traffic.options import SamplingOptions
from partition_ops.traffic.plan import MOST_WORK, mapped_bytes, work
from partition_ops.traffic.train_nodes import TrainType

Figures = dict[str, Any]
logger = logging.getLogger("partition_ops")


def options_of(options: SamplingOptions, types: Sequence[TrainType]) -> Figures:
    """Return the options that the figures depend on, with the train nodes that are meant."""
    return {
        "train_nodes": [str(one) for one in types],
        "fanouts": list(options.fanouts),
        "batch_size": options.batch_size,
    }


def predict(model: TrafficModel, source: Store, metadata: GraphMetadata, assignment: Assignment) -> Figures:
    """Return the figures of an assignment: those of trainers, the bytes of rows, and the curve of caches.

    Args:
        model: The model of the traffic, with the node types as ranges.
        source: Root of the input graph; headers of features are read.
        metadata: Its metadata.
        assignment: The partition of each node.

    Peak memory: that of `TrafficModel.traffic`, and 45 bytes a node for the curve.
    """
    row_bytes = _row_bytes(source, metadata)
    curve = CacheCurve(Cacheable.of(metadata, assignment)) if any(row_bytes) else None
    look = curve.add if curve is not None else None
    traffic = model.traffic(assignment.parts, assignment.num_parts, look)
    named = dict(zip(metadata.node_types, row_bytes, strict=True))
    saved = {} if curve is None else {"cache": curve.figures(traffic)}
    return {"row_bytes": named, **training_figures(traffic, row_bytes), **saved}


def keep_figures(
    options: Figures,
    model: TrafficModel,
    source: Store,
    metadata: GraphMetadata,
    destination: Store,
    assignment: Assignment,
) -> None:
    """Write ``scratch/partition/training.json``, which saves ``quality`` the model of the traffic.

    That is a seventh of the time of a job with a train mask. Nothing is written if `predict` would take too
    long, or needs so much memory that ``quality`` maps files instead.

    Args:
        options: As of `options_of`.
        model: As for `predict`.
        source: As for `predict`.
        metadata: As for `predict`.
        destination: Root of the run.
        assignment: The partition of each node.
    """
    layers = len(options["fanouts"])
    if work(metadata, layers, assignment.num_parts) > MOST_WORK or mapped_bytes(metadata, layers):
        return
    figures = predict(model, source, metadata, assignment)
    kept = {
        "assignment": assignment.digest(),
        "made_from": _made_from(source, metadata, destination),
        "figures": {"options": options, **figures},
    }
    destination.write_json(layout.KEPT_TRAINING, kept)


def read_kept_figures(
    options: Figures, source: Store, metadata: GraphMetadata, destination: Store, assignment: Assignment
) -> Figures | None:
    """Return what `keep_figures` wrote; None if there is nothing for these arguments.

    Args: As for `keep_figures`.
    """
    if not destination.exists(layout.KEPT_TRAINING):
        return None
    try:
        kept = read_document(destination, layout.KEPT_TRAINING, "kept_training")
    except InvalidInputError as error:  # a crash of the machine may leave it broken, and nothing lists it
        logger.warning("%s; the figures are computed anew", error.problem)
        return None
    known = kept["figures"]["options"], kept["assignment"], kept["made_from"]
    if known != (options, assignment.digest(), _made_from(source, metadata, destination)):
        return None
    figures: Figures = kept["figures"]
    return figures


def _made_from(source: Store, metadata: GraphMetadata, destination: Store) -> str:
    """Return a digest of sizes and tags of the input's files, and of the lists of dropped edges.

    A run that was killed may be resumed with another mask.
    """
    files = [[one.key, one.size, one.tag] for one in input_objects(source, metadata)]
    lists = dict(ListedEdges(destination, layout.DROPPED).digests)
    return hashlib.sha256(json_bytes({"files": files, "lists": lists})).hexdigest()


def _row_bytes(source: Store, metadata: GraphMetadata) -> list[int]:
    """Return by node type ID the bytes of a row of all its features."""
    found, readers = dict.fromkeys(metadata.node_types, 0), feature_readers(source, metadata)
    for feature in metadata.node_features:
        header = readers[feature.key].header()
        if header is not None:
            found[feature.type_name] += header[0].itemsize * math.prod(header[1])
    return list(found.values())
