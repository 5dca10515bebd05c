"""Engine ``two-level``: METIS over clusters of nodes, then refinement; fast, and few edges are cut.

docs/decisions/two-level.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partition_ops.artifacts.cost import Machine, Sizes
from partition_ops.artifacts.parhip import neighbour_bytes
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost
from partition_ops.stages.partition.engines.random import without_cut
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of
from partition_ops.stages.partition.multilevel.levels import Level, contract_levels, cut_by_metis
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem

MOST_CLUSTERED = 1 << 30  # bytes of a graph of clusters, for METIS; a larger one is contracted again


class TwoLevel(Engine):
    """METIS over clusters, and refinement."""

    name = "two-level"
    supports = frozenset(OPTIONAL)

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges, every column of the weights balanced.

        Clusters of the graph are contracted to a much smaller one with weights, METIS cuts that with one
        constraint a column, and nodes at the borders move on the whole graph while that lowers the cut.

        Peak memory: 36 bytes a node; 12 bytes a half-edge of the graph of clusters, which has a tenth of the
        graph's if that has communities, and 180 bytes a half-edge of the last such graph, which has at most
        2**24; for each thread up to 200 bytes times the largest degree. The graph itself stays mapped if its
        file has 32 bits for a neighbour, and takes 4 bytes a half-edge otherwise.
        """
        parts = without_cut(problem)
        if parts is not None:
            return parts
        levels, seed = _levels(problem), problem.config.seed
        parts = cut_by_metis(problem.config, levels[-1], seed, spare=problem.limits_in_edges)
        for level in reversed(levels):
            parts = parts[level.labels] if len(level.labels) else parts
            refine(level.graph, level.constraints, parts, tuning=problem.tuning)
        return parts

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        return cost_over_clusters(config, sizes, searched=False)


def cost_over_clusters(config: PartitionConfig, sizes: Sizes, *, searched: bool) -> EngineCost:
    """Return what one partitioning over clusters takes, if the whole graph is searched for moves or not."""
    node_bytes = 36 + (37 + 4 * config.all_parts if searched else 0)
    held = node_bytes * sizes.nodes + min(4 * sizes.half_edges, MOST_CLUSTERED)
    doublings = max((config.all_parts - 1).bit_length(), 1)
    seconds = sizes.edges * (0.075e-6 if searched else 0.05e-6) * doublings
    note = "a graph without communities takes more"
    return with_graph(EngineCost(held=held, seconds=seconds, note=note), sizes)


def with_graph(cost: EngineCost, sizes: Sizes) -> EngineCost:
    """Add the prepared graph, which is mapped, or copied if its neighbours have 64 bits."""
    if neighbour_bytes(sizes.nodes, sizes.edges) == 8:
        return replace(cost, held=cost.held + 4 * sizes.half_edges)
    return replace(cost, mapped=sizes.prepared_bytes)


def _levels(problem: Problem) -> list[Level]:
    """Return the graph, and graphs of clusters for METIS, each made of the one before."""
    tuning = problem.tuning
    many = problem.num_parts > tuning.many_parts
    how = tuning.over_clusters_of_many if many else tuning.over_clusters
    whole = Graph.of_input(problem.graph, problem.edge_weights)

    def size(graph: Graph, number: int) -> int:
        if graph.num_half_edges == 0 or (graph is whole and graph.num_nodes <= tuning.few_nodes):
            return 0
        further = max(number - len(how.clusters) + 1, 0)
        count = how.clusters[number - further] >> further
        if count == 0 or (further and graph.num_half_edges <= tuning.most_half_edges):
            return 0
        return max(2, whole.num_nodes // (count * problem.num_parts))

    def worthwhile(graph: Graph, clusters: int) -> bool:
        connected = int(np.count_nonzero(graph.offsets[1:] > graph.offsets[:-1]))
        return (clusters - (graph.num_nodes - connected)) / connected <= how.shrinking

    level = Level(whole, constraints_of(problem))
    return contract_levels(level, how, size, problem.config.seed, step=0, worthwhile=worthwhile)


ENGINE = TwoLevel()
