"""The objective ``train``: the problem with a model of the traffic, and with weights of edges made of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.stages.partition.engine import TRAIN, find_engine
from partition_ops.stages.partition.multilevel.tuning import USUAL
from partition_ops.stages.partition.problem import NO_WEIGHTS, Parts, Problem, Weights
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.traffic.plan import MANY_BYTES

if TYPE_CHECKING:
    from partition_ops.traffic.kept_half_edges import KeptHalfEdges
    from partition_ops.traffic.model import TrafficModel

HEAVIEST = (1 << 27) - 1  # sum of the weights at a node; searches multiply it by 8, in 32 bits


def with_traffic(problem: Problem, half_edges: KeptHalfEdges | None = None) -> Problem:
    """Return the problem with a model of the traffic, and with edges weighted by the rows read over them.

    The engine says whether it wants weights. Nothing changes without train nodes, or without edges.

    Args:
        problem: The problem.
        half_edges: Where ``prepare`` may have left the edges; if it has not, they are read from the input.

    Raises:
        UsageError: The train nodes that the options name do not exist.
        InvalidInputError: The edges or a mask cannot be read.

    Peak memory: 40 bytes a node, 12 bytes an edge, and 20 bytes a half-edge.
    """
    from partition_ops.traffic.half_edge_weights import add_to_half_edges
    from partition_ops.traffic.model import TrafficModel
    from partition_ops.traffic.reached_edges import reached
    from partition_ops.traffic.sampled_edges import read_sampled_edges
    from partition_ops.traffic.train_nodes import read_train_nodes, train_types

    source, metadata, sampling = problem.source, problem.metadata, problem.config.sampling
    if source is None or not problem.graph.num_half_edges:
        return problem
    types = train_types(metadata, sampling.train_nodes or ())
    train = read_train_nodes(source, metadata, types)
    if not train.any():
        return problem
    edges = None if half_edges is None else half_edges.take()
    if edges is None:
        hidden = ListedEdges(problem.artifacts, layout.DROPPED).ids(metadata)
        edges = read_sampled_edges(source, metadata, hidden)
    num_edges = edges.num_edges
    edges = reached(edges, train, len(sampling.sampling.fanouts))
    offsets = metadata.node_offsets
    model = TrafficModel(edges, train, sampling.sampling, node_ranges=metadata.node_ranges)
    problem.notes["objective"] = TRAIN
    for one in types:
        begin, end = offsets[(number := metadata.node_type_id(one.node_type)) : number + 2]
        problem.notes.setdefault("train_nodes", {})[str(one)] = int(np.count_nonzero(train[begin:end]))
    chances = model.edge_chances(problem.num_parts)
    total, squares = model.sums_of_weights(chances)
    in_effect = total**2 / (num_edges * squares) if squares else 1.0
    problem = problem.but(traffic=model, uneven=in_effect < problem.tuning.uneven)
    if not find_engine(problem.config.engine).weighs_edges(problem):
        return problem
    weights = model.edge_weights(chances)
    del chances
    starts = np.asarray(problem.graph.offsets, np.int64)
    sums = add_to_half_edges(edges, weights, starts, problem.graph.narrow_neighbours)
    edge_weights, factor = _whole(sums, starts)
    batches = max(np.count_nonzero(train) / (problem.num_parts * sampling.batch_size), 1.0)  # of a trainer
    return problem.but(edge_weights=edge_weights, row_weight=factor / batches)


@contextmanager
def set_aside(model: TrafficModel | None) -> Iterator[None]:
    """Keep many edges of the model of the traffic on the disk, below ``TMPDIR``, until the block ends.

    They take 6 bytes an edge: a fifth of the largest process of a job at ten times scale 1. Engines partition
    so large a graph once, and do not read them but with the effort ``best``.
    """
    from partition_ops.traffic.sampled_edges import on_disk

    if model is None or model.edges.nbytes < MANY_BYTES:
        yield
        return
    with temporary_folder() as folder:
        model.edges = on_disk(model.edges, Path(folder))
        yield


def keep_traffic(problem: Problem, parts: Parts) -> None:
    """Write what ``quality`` would say of the training, so that it need not build the model.

    Args:
        problem: With a model of the traffic, or nothing is written.
        parts: (nodes,) int32, the partition of each node.
    """
    from partition_ops.traffic.report import keep_figures, options_of
    from partition_ops.traffic.train_nodes import train_types

    model, metadata, sampling = problem.traffic, problem.metadata, problem.config.sampling
    if model is None or problem.source is None:
        return
    options = options_of(sampling, train_types(metadata, sampling.train_nodes or ()))
    assignment = Assignment(problem.config.num_parts, find_engine(problem.config.engine).dgl_name, parts)
    keep_figures(options, model, problem.source, metadata, problem.artifacts, assignment)


def _whole(weights: npt.NDArray[np.float64], offsets: Weights) -> tuple[Weights, float]:
    """Return (half-edges,) int64, at least 1, and their ratio to some weights, which are overwritten."""
    used = weights[weights > 0]
    if not len(used):
        return NO_WEIGHTS, 1.0
    at_node = np.add.reduceat(np.append(weights, 0.0), offsets[:-1])
    at_node[np.diff(offsets) == 0] = 0
    largest = int(np.diff(offsets).max())
    factor = min(USUAL / float(np.median(used)), max(HEAVIEST - largest, 1) / float(at_node.max()))
    np.multiply(weights, factor, out=weights)
    np.maximum(np.floor(weights, out=weights), 1, out=weights)
    return weights.astype(np.int64), factor
