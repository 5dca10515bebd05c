"""Small graphs: every partition gets its share of each class, to the node.

Engines let a partition exceed its share by 3 % or by one node, whichever is more. That is little in a large
graph, but of four nodes, two partitions may get one and three.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.multilevel.tuning import NODES_OF_A_PART, ROUNDING
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Classes, Parts, Weights, shares

Counts = npt.NDArray[np.int64]


def is_small(config: PartitionConfig, nodes: int) -> bool:
    """Return whether `even_out` may move nodes of a graph with so many nodes."""
    small = nodes < NODES_OF_A_PART * config.num_parts
    return small and config.tolerance is None and config.num_trainers_per_machine == 1


def even_out(
    config: PartitionConfig,
    graph: ParhipGraph,
    classes: Classes,
    parts: Parts,
    edge_weights: Weights | None = None,
) -> Parts:
    """Return partitions in which nodes of a small graph have moved until each class is as even as it can be.

    Each move cuts the fewest edges; ties go to the lower IDs. Nothing moves in other graphs, if the options
    have a tolerance, or if machines have several trainers. ``edge_weights`` are (half-edges,) int64; None or
    empty if every edge weighs 1.
    """
    if edge_weights is None or not len(edge_weights):
        edge_weights = np.broadcast_to(np.int64(1), graph.num_half_edges)
    if not is_small(config, graph.num_nodes):
        return parts
    parts = parts.copy()
    for which in np.unique(classes):
        _even_out_class(config, graph, np.flatnonzero(classes == which), parts, edge_weights)
    return parts


def _even_out_class(
    config: PartitionConfig, graph: ParhipGraph, nodes: Counts, parts: Parts, edge_weights: Weights
) -> None:
    """Move nodes of one class; ``nodes`` are their IDs, ascending."""
    wanted = len(nodes) * shares(config)
    least = np.floor(wanted + ROUNDING).astype(np.int64)
    most = np.ceil(wanted - ROUNDING).astype(np.int64)
    counts = np.bincount(parts[nodes], minlength=config.num_parts)
    while True:
        givers, takers = counts > most, counts < least
        if not givers.any() and not takers.any():
            return
        givers = givers if givers.any() else counts > least
        takers = takers if takers.any() else counts < most
        node, part = _best_move(graph, nodes[givers[parts[nodes]]], takers, parts, edge_weights)
        counts[parts[node]] -= 1
        counts[part] += 1
        parts[node] = part


def _best_move(
    graph: ParhipGraph, nodes: Counts, takers: npt.NDArray[np.bool_], parts: Parts, edge_weights: Weights
) -> tuple[int, int]:
    """Return the node and the partition whose move cuts the fewest edges."""
    any_taker = int(np.argmax(takers))
    moves = []
    for node in nodes.tolist():
        span = slice(graph.offsets[node], graph.offsets[node + 1])
        known, places = np.unique(parts[np.asarray(graph.neighbours[span])], return_inverse=True)
        edges = np.bincount(places, edge_weights[span], len(known)).astype(np.int64)
        joined = dict(zip(known.tolist(), edges.tolist(), strict=True))
        part = max(
            (one for one in joined if takers[one]), key=lambda one: (joined[one], -one), default=any_taker
        )
        moves.append((joined.get(int(parts[node]), 0) - joined.get(part, 0), node, part))
    return min(moves)[1:]
