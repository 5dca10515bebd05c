"""The model of the traffic of a run, from its input and its assignment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.traffic.model import Mask, Sampling, TrafficModel
from partition_ops.traffic.plan import mapped_bytes
from partition_ops.traffic.reached_edges import reached
from partition_ops.traffic.sampled_edges import read_sampled_edges


@contextmanager
def model_of_run(
    sampling: Sampling,
    source: Store,
    metadata: GraphMetadata,
    destination: Store,
    train: Mask,
    assignment: Assignment,
    num_hops: int,
) -> Iterator[TrafficModel]:
    """Yield the model of the traffic of a run.

    Args:
        sampling: How trainers sample.
        source: Root of the input graph.
        metadata: Its metadata.
        destination: Root of the run, with the lists of dropped edges.
        train: (nodes,) bool, the train nodes, by homogeneous ID of the input.
        assignment: The partition of each node.
        num_hops: Number of hops of the halos; without one, trainers only sample edges in their partition.

    Raises:
        InvalidInputError: The edges cannot be read.

    Peak memory: 8 bytes a node, 17 bytes a group, for each core a block of edges, and `model_bytes`, or these
    as mapped files below ``TMPDIR``; see `mapped_bytes`.
    """
    dropped = ListedEdges(destination, layout.DROPPED).ids(metadata)
    with ExitStack() as stack:
        folder = None
        if mapped_bytes(metadata, len(sampling.fanouts)):
            folder = Path(stack.enter_context(temporary_folder()))
        inside = assignment.parts if num_hops == 0 else None
        edges = read_sampled_edges(source, metadata, dropped, parts=inside, folder=folder)
        edges = reached(edges, train, len(sampling.fanouts))
        yield TrafficModel(edges, train, sampling, node_ranges=metadata.node_ranges, folder=folder)
