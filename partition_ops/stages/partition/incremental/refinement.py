"""The engines' way to follow a graph that has grown: place what is new, refine around what has changed."""

from __future__ import annotations

import numpy as np

from partition_ops.stages.partition.engines.two_level.engine import constraints_of
from partition_ops.stages.partition.engines.two_level.graph import Graph
from partition_ops.stages.partition.engines.two_level.refine import refine
from partition_ops.stages.partition.incremental.old import Old
from partition_ops.stages.partition.incremental.place import place_new
from partition_ops.stages.partition.problem import Parts, Problem


def follow_by_refining(problem: Problem, old: Old) -> Parts | None:
    """Old nodes stay, new ones go where their neighbours are; then nodes move where that pays.

    Looked at are new nodes, old ones with another number of neighbours than before, and the neighbours of
    what moves. An old node pays `migration_price` for leaving its partition, unless balance needs it to.

    Returns:
        (nodes,) int32, partition by homogeneous ID; None where balance cannot be restored.

    Peak memory: 40 bytes a node; the graph stays mapped.
    """
    graph = Graph.of_input(problem.graph)
    constraints = constraints_of(problem)
    parts = old.homes.copy()
    place_new(graph, constraints, parts)
    active = None
    if old.degrees is not None:
        active = np.diff(graph.offsets) != old.degrees
    price = problem.config.migration_price
    kept = refine(graph, constraints, parts, homes=old.homes, price=price, active=active)
    return parts if kept else None
