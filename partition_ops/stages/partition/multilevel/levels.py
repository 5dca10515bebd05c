"""A graph and graphs of its clusters, each smaller than the one before, which METIS partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.metis_library import cut_graph
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    Constraints,
    Graph,
    Labels,
    constraints_of,
)
from partition_ops.stages.partition.multilevel.search import Homes
from partition_ops.stages.partition.multilevel.spread import WHOLE, Whole
from partition_ops.stages.partition.multilevel.tuning import (
    DEFAULT,
    LEAST_TOLERANCE,
    METIS_TOLERANCE,
    OF_SPARE,
    Contraction,
    Tuning,
)
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem, shares, tolerances


class Level(NamedTuple):
    """The graph, or a graph of clusters."""

    graph: Graph
    constraints: Constraints  # constraints on its nodes
    # (nodes,) int32; only nodes of the same cell share a cluster. Empty for no such limit
    cells: Labels = NO_LABELS
    # (nodes,) int32, the node of the next smaller graph for each node; empty in the smallest
    labels: Labels = NO_LABELS
    homes: Homes | None = None  # partitions that nodes should rather stay in; None if nodes move freely

    @classmethod
    def of(cls, problem: Problem) -> Level:
        """Return the whole graph of a problem."""
        return cls(Graph.of_input(problem.graph, problem.edge_weights), constraints_of(problem))


def contract_levels(
    whole: Level,
    how: Contraction,
    size: Callable[[Graph, int], int],
    seed: int,
    *,
    step: int = 1,
    worthwhile: Callable[[Graph, int], bool] | None = None,
    spread: Whole = WHOLE,
) -> list[Level]:
    """Return the graph, and graphs of clusters, each made of the one before.

    Args:
        whole: The graph.
        how: When it ends.
        size: Returns the largest size of a cluster, in nodes of the input graph, for a graph and its number
            of contractions; 0 to end.
        seed: For the clusters of the first level.
        step: Difference between the seeds of two levels.
        worthwhile: Returns whether to contract a graph into so many clusters; by default, if they are few.
        spread: Where the neighbours of the graph are; those of the graphs of clusters are in one process.
    """
    worthwhile = worthwhile or (lambda graph, clusters: clusters <= how.shrinking * graph.num_nodes)
    levels = [whole]
    for number in range(how.levels):
        where = spread if number == 0 else WHOLE
        graph, constraints, cells, _, homes = levels[-1]
        most = size(graph, number) if graph.num_nodes > how.fewest * len(constraints.most) else 0
        if most == 0:
            break
        labels = find_clusters(graph, most, seed + step * number, cells, how, where)
        used = np.zeros(graph.num_nodes, np.bool_)
        used[labels] = True
        if not worthwhile(graph, int(np.count_nonzero(used))):
            break
        smaller, numbers = contract(graph, labels)
        smaller = where.together(smaller)
        levels[-1] = levels[-1]._replace(labels=numbers)
        count = smaller.num_nodes
        theirs = of_clusters(cells, numbers, count) if len(cells) else cells
        homes = homes and homes.contracted(numbers, count)
        levels.append(Level(smaller, constraints.contracted(numbers, count), theirs, homes=homes))
    return levels


def of_clusters(values: Labels, labels: Labels, count: int) -> Labels:
    """Return (count,) int32, the value that all nodes of a cluster share."""
    found = np.empty(count, np.int32)
    found[labels] = values
    return found


def cut_by_metis(
    config: PartitionConfig,
    level: Level,
    seed: int,
    *,
    by_limits: bool = False,
    spare: int = 0,
    most_over: float = 1.0,
    tuning: Tuning = DEFAULT,
) -> Labels:
    """Return (nodes,) int32: METIS's partitions, which may exceed limits.

    Each further constraint makes METIS slower and its cuts worse. It gets loose ones, which most partitions
    keep to, only if its first result does not. The second call takes as long as the first one; with many
    partitions that is half of the partitioning.

    Args:
        config: Partitions, their shares, tolerance, objective.
        level: The graph, which has edges and more nodes than partitions.
        seed: Any number.
        by_limits: Whether METIS gets the limits of the input graph; otherwise `tolerances` of this graph,
            whose nodes may be heavier.
        spare: Number of the last columns whose limits are loose.
        most_over: METIS is called again if a partition holds more than this multiple of a loose limit.
            `REFINED` is for results that are refined within the limits.
        tuning: Says for which graphs METIS uses recursive bisection.
    """
    graph, limits = level.graph, level.constraints
    num_parts, volume = config.all_parts, config.objective == "vol"
    few_clusters = 0 < len(graph.node_weights) <= tuning.bisected * num_parts
    bisect = few_clusters and num_parts > tuning.many_parts and not volume
    columns = limits.columns()
    strict = columns.shape[1] - spare
    sums = columns.sum(axis=0)
    fractions = shares(config)
    ideal = fractions[:, None] * np.maximum(sums, 1)
    by_column = np.maximum((limits.most / ideal).min(axis=0), LEAST_TOLERANCE)
    by_column[strict:] = 1 + OF_SPARE * (by_column[strict:] - 1)

    def cut(count: int) -> Labels:
        chosen = np.flatnonzero(sums[:count])  # METIS divides by them
        weights = np.ascontiguousarray(columns[:, chosen])
        allowed = by_column[chosen]
        if not by_limits:
            own = chosen[chosen < strict]
            heaviest = columns[:, own].max(axis=0)
            allowed[: len(own)] = tolerances(config, heaviest, sums[own], METIS_TOLERANCE)
        if bisect:  # METIS allows each bisection what it is given
            allowed = np.maximum(allowed ** (1 / (num_parts - 1).bit_length()), LEAST_TOLERANCE)
        edge_weights = graph.edge_weights if len(graph.edge_weights) else None
        adjacency = ParhipGraph(graph.offsets, graph.neighbours)
        return cut_graph(
            adjacency,
            weights,
            fractions,
            allowed,
            seed=seed % 2**31,
            edge_weights=edge_weights,
            volume=volume,
            bisect=bisect,
        )

    parts = cut(strict)
    if spare and (limits.loads(parts)[:, strict:] > most_over * limits.most[:, strict:]).any():
        return cut(columns.shape[1])
    return parts
