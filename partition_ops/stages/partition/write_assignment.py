"""Write an assignment, or import one that was made elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment, read_assignment, write_assignment_files
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import some_of
from partition_ops.formats.parmetis.output_nodes import read_parmetis_assignment
from partition_ops.options.declare import StageConfig
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts
from partition_ops.storage import Store

logger = logging.getLogger("partition_ops")


def write_assignment(
    writer: ArtifactWriter,
    metadata: GraphMetadata,
    parts: Parts,
    *,
    dgl_name: str,
    config: PartitionConfig | None = None,
    num_parts: int | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write an assignment in DGL's text format, with a binary twin and a sidecar that ties them.

    Args:
        writer: Collects what is written.
        metadata: The graph's metadata.
        parts: (nodes,) int32, partition by homogeneous ID.
        dgl_name: ``random`` or ``metis``, for DGL's loader.
        config: The options that made it; None if it was made elsewhere.
        num_parts: Number of partitions, if it was made elsewhere.
        more: Further entries of the sidecar.

    Returns:
        Figures for the record.
    """
    writer.destination.delete([layout.KEPT_TRAINING])  # of an earlier assignment, perhaps of other edges
    count = config.num_parts if config else num_parts or 1
    made_by = config.options() if config else {"engine": "imported"}
    write_assignment_files(writer, metadata, Assignment(count, dgl_name, parts), made_by=made_by, more=more)
    if config:
        _warn_of_empty(parts, count, metadata, writer.destination.uri)
    sizes = np.bincount(parts, minlength=count).tolist()
    return {"engine": made_by["engine"], "num_parts": count, "nodes_per_part": sizes}


def write_trainers(writer: ArtifactWriter, metadata: GraphMetadata, trainers: Parts) -> None:
    """Write ``assignment/trainers/<node type>.npy``: the trainer of every node, counted over all machines.

    ``dgl.distributed.partition_graph`` calls it ``trainer_id``: with k trainers on a machine, those of
    partition p are k * p to k * p + k - 1.
    """
    for node_type, (begin, end) in zip(metadata.node_types, pairwise(metadata.node_offsets), strict=True):
        key = f"{layout.ASSIGNMENT}/{layout.assignment_trainers(node_type)}"
        writer.write_array(key, trainers[begin:end])


def import_assignment(
    config: StageConfig,
    source: Store,
    assignment: Store,
    destination: Store,
    *,
    parmetis_parts: int | None = None,
    parmetis_weights: int = 0,
) -> StageResult:
    """Import an assignment that was made elsewhere, after checks, as the result of ``partition``.

    Args:
        config: The graph's name.
        source: Root of the input graph; only its ``metadata.json`` is read.
        assignment: Folder with ``partition_meta.json`` and ``<node type>.txt``, or with the text that
            ``pm_dglpart`` wrote. A partition without nodes is a warning in the log.
        destination: Root of the run.
        parmetis_parts: Number of partitions in the text of ``pm_dglpart``; None reads DGL's folder.
        parmetis_weights: Number of weights of a node in that text.

    Raises:
        InvalidInputError: A file is missing, a node has no partition or one that is out of range.

    Peak memory: 12 bytes a node.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    if parmetis_parts is None:
        found = read_assignment(assignment, metadata)
    else:
        found = read_parmetis_assignment(
            assignment, metadata, num_parts=parmetis_parts, num_weights=parmetis_weights
        )
    _warn_of_empty(found.parts, found.num_parts, metadata, assignment.uri)

    def work(writer: ArtifactWriter) -> Counters:
        return write_assignment(
            writer, metadata, found.parts, dgl_name=found.algo_name, num_parts=found.num_parts
        )

    options = {**config.options(), "digest": found.digest()}
    return Task("partition", destination, work, options=options, outputs=[layout.ASSIGNMENT]).run()


def _warn_of_empty(parts: Parts, num_parts: int, metadata: GraphMetadata, where: str) -> None:
    """Log a warning about partitions without nodes, or without nodes of a type."""
    empty = np.flatnonzero(np.bincount(parts, minlength=num_parts) == 0).tolist()
    if empty:
        numbers = some_of([*map(str, empty)])
        logger.warning("%s: %d of %d partitions have no nodes: %s", where, len(empty), num_parts, numbers)
    without = {}
    for name, (begin, end) in zip(metadata.node_types, pairwise(metadata.node_offsets), strict=True):
        having = np.count_nonzero(np.bincount(parts[begin:end], minlength=num_parts))
        if end > begin and having < num_parts - len(empty):
            without[name] = f"{name!r} ({end - begin} nodes, in {having} partitions)"
    if without:
        logger.warning("%s: some partitions have no nodes of %s", where, some_of([*without.values()]))
