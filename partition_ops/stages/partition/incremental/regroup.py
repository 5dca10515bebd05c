"""Follow a graph that has grown by moving whole clusters, where placing single nodes cuts too much.

The multilevel way of adaptive repartitioning. Source: Schloegel, Karypis, Kumar, "A unified algorithm for
load-balancing adaptive scientific simulations" (2000). Our own addition is that partitions may hold too
much while clusters are large; docs/decisions/growth.md has the reasons, and what else was tried.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.graph import (
    Constraints,
    Graph,
    Integers,
    Labels,
    constraints_of,
)
from partition_ops.stages.partition.multilevel.refine import NOWHERE, refine
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.compilation import compiled_with_arrays

SWEEPS = 5  # clusters may be larger here than those that METIS cuts
CLUSTERS = 32  # of the largest size make a partition
FEW_CLUSTERS = 50  # for each partition; a graph with fewer nodes is not contracted
MOST_LEVELS = 8
LEAST_SHRINKING = 0.9  # with more clusters than this share of the nodes, a level is not worthwhile
SLACK = 0.02  # share of a partition: it may hold so much more of each type on the smallest graph
LESS_SLACK = 0.4  # factor from level to level; there is no slack on the graph itself
PRICES = (1.0, 0.3)  # multiples of the migration price
NO_LABELS = np.zeros(0, np.int32)
logger = logging.getLogger("partition_ops")


class Level(NamedTuple):
    """The graph, or a graph of its clusters.

    Attributes:
        graph: The graph.
        constraints: Constraints on its nodes.
        homes: (nodes,) int32, the old partition of each node, `NOWHERE` for new nodes.
        labels: (nodes,) int32, the node of the next smaller graph for each node; empty in the smallest.
    """

    graph: Graph
    constraints: Constraints
    homes: Parts
    labels: Labels


def regroup(problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
    """Yield assignments: clusters of old nodes of one partition, and of new nodes, move first, then nodes.

    New clusters go where most of their edges lead, the largest first. Then clusters leave partitions that
    hold too much: those that cost least for their weight, by the edges cut and by the price of every old
    node. Each further assignment is made at a lower price.

    Yields:
        (nodes,) int32, partition by homogeneous ID. Nothing if balance cannot be restored, or if the graph
        has too few nodes for clusters.

    Peak memory: 60 bytes a node, and 32 bytes a half-edge of the first graph of clusters, which has a tenth
    of the graph's if that has communities; the graph itself stays mapped.
    """
    logger.info("partition: whole clusters are moved, because moving single nodes was not enough")
    constraints = constraints_of(problem)
    levels = _levels(problem, Level(Graph.of_input(problem.graph), constraints, previous.homes, NO_LABELS))
    if len(levels) == 1:
        return
    start = levels[-1].homes.copy()
    _place(levels[-1], np.argsort(-levels[-1].graph.node_weights, kind="stable"), start)
    kinds = 2 if problem.config.balance == "edges" else 1
    for share in PRICES:
        parts = _refine_levels(levels, start.copy(), kinds, share * problem.config.migration_price)
        if parts is not None:
            yield parts


def _levels(problem: Problem, whole: Level) -> list[Level]:
    """Return the graph, and the graphs that repeated contraction of clusters makes of it."""
    levels = [whole]
    most = max(2, whole.graph.num_nodes // (CLUSTERS * problem.num_parts))
    while len(levels) < MOST_LEVELS:
        graph, constraints, homes, _ = levels[-1]
        if graph.num_nodes <= FEW_CLUSTERS * problem.num_parts:
            break
        labels = find_clusters(graph, most, problem.config.seed + len(levels), homes, sweeps=SWEEPS)
        smaller, dense = contract(graph, labels)
        if smaller.num_nodes > LEAST_SHRINKING * graph.num_nodes:
            break
        theirs = np.empty(smaller.num_nodes, np.int32)
        theirs[dense] = homes
        levels[-1] = levels[-1]._replace(labels=dense)
        levels.append(Level(smaller, constraints.contracted(dense, smaller.num_nodes), theirs, NO_LABELS))
    return levels


def _refine_levels(levels: list[Level], parts: Parts, kinds: int, price: float) -> Parts | None:
    """Return partitions of the graph, from those of the smallest one; None if they are not balanced.

    Args:
        levels: All levels, the graph first.
        parts: (nodes of the smallest,) int32, changed.
        kinds: Number of columns for each type: 1 for nodes, 2 with in-degrees.
        price: Price of an old node.
    """
    slack, balanced = SLACK, False
    for level in reversed(levels):
        if level is not levels[-1]:
            parts, slack = parts[level.labels], slack * LESS_SLACK
        constraints = level.constraints
        if level is not levels[0]:
            constraints = loosen(constraints, kinds, slack)
        balanced = refine(level.graph, constraints, parts, homes=level.homes, price=price)
    return parts if balanced else None


def loosen(constraints: Constraints, kinds: int, slack: float) -> Constraints:
    """Return constraints with limits raised, for each type, by a share of the limit of all types.

    Args:
        constraints: On the nodes of a graph of clusters.
        kinds: Number of columns for each type: 1 for nodes, 2 with in-degrees.
        slack: The share.
    """
    most = constraints.most.reshape(len(constraints.most), kinds, -1)
    more = (slack * most.sum(axis=2, keepdims=True)).astype(np.int64)
    return constraints._replace(most=(most + more).reshape(constraints.most.shape))


@compiled_with_arrays
def _place(level: Level, order: Integers, parts: Parts) -> None:
    """Give every cluster of new nodes the partition that most of its edges lead to, or the least full.

    Args:
        level: A graph of clusters.
        order: (nodes,) int64, all clusters, in the order in which they are placed.
        parts: (nodes,) int32, `NOWHERE` for clusters of new nodes; changed.
    """
    graph, weights, most = level.graph, level.constraints.weights, level.constraints.most
    loads = np.zeros(most.shape, np.int64)
    for v in range(len(parts)):
        if parts[v] != NOWHERE:
            loads[parts[v]] += weights[v]
    sums = np.zeros(len(loads), np.int64)
    for v in order:
        if parts[v] != NOWHERE:
            continue
        sums[:] = 0
        for j in range(graph.offsets[v], graph.offsets[v + 1]):
            part = parts[graph.neighbours[j]]
            if part != NOWHERE:
                sums[part] += graph.edge_weights[j]
        best, least = 0, np.inf
        for part in range(len(loads)):
            fullness = ((loads[part] + weights[v]) / np.maximum(most[part], 1)).max()
            if sums[part] > sums[best] or (sums[part] == sums[best] and fullness < least):
                best, least = part, fullness
        parts[v] = best
        loads[best] += weights[v]
