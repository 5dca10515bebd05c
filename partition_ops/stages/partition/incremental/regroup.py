"""Follow a graph that has grown by moving whole clusters, where placing single nodes cuts too much.

The multilevel way of adaptive repartitioning. Source: Schloegel, Karypis, Kumar, "A unified algorithm for
load-balancing adaptive scientific simulations" (2000). Our own addition is that partitions may hold too
much while clusters are large; docs/decisions/growth.md has the reasons, and what else was tried.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.graph import (
    NOWHERE,
    Constraints,
    Graph,
    Integers,
    constraints_of,
)
from partition_ops.stages.partition.multilevel.levels import Level, contract_levels
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.compilation import compiled_with_arrays

logger = logging.getLogger("partition_ops")


def regroup(problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
    """Yield assignments: clusters of old nodes of one partition, and of new nodes, move first, then nodes.

    New clusters go where most of their edges lead, the largest first. Then clusters leave partitions that
    hold too much: those that cost least for their weight, by the edges cut and by the price of every old
    node. Each further assignment is made at a lower price. A graph with too few nodes for clusters has none.

    Peak memory: 60 bytes a node, and 32 bytes a half-edge of the first graph of clusters, which has a tenth
    of the graph's if that has communities; the graph itself stays mapped.
    """
    logger.info("partition: whole clusters are moved, because moving single nodes was not enough")
    tuning = problem.tuning
    graph = Graph.of_input(problem.graph, problem.edge_weights)
    most = max(2, graph.num_nodes // (tuning.regroup.clusters[0] * problem.num_parts))
    whole = Level(graph, constraints_of(problem), previous.homes)
    levels = contract_levels(whole, tuning.regroup, lambda *_: most, problem.config.seed + 1)
    if len(levels) == 1:
        return
    start = levels[-1].cells.copy()
    graph, constraints = levels[-1][:2]
    _place(graph, constraints, np.argsort(-graph.node_weights, kind="stable"), start)
    for share in tuning.regroup_prices:
        price, slack, balanced, parts = share * problem.price, tuning.slack, False, start.copy()
        for level in reversed(levels):
            if level is not levels[-1]:
                parts, slack = parts[level.labels], slack * tuning.less_slack
            constraints = loosen(level.constraints, 0 if level is levels[0] else slack)
            balanced = refine(level.graph, constraints, parts, homes=level.cells, price=price, tuning=tuning)
        if balanced:
            yield parts


def loosen(constraints: Constraints, slack: float) -> Constraints:
    """Return constraints with limits raised: for each class, by a share of the limit of all classes."""
    kinds = np.split(constraints.most, [constraints.num_classes], axis=1)
    raised = [most + (slack * most.sum(axis=1, keepdims=True)).astype(np.int64) for most in kinds]
    return constraints._replace(most=np.concatenate(raised, axis=1))


@compiled_with_arrays
def _place(graph: Graph, constraints: Constraints, order: Integers, parts: Parts) -> None:
    """Give clusters, in order, the partition that most of their edges lead to, or the least full."""
    weights, most = constraints.weights, constraints.most
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
