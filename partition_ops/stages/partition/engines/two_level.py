"""Engine ``two-level``: METIS over clusters of nodes, then refinement; fast, and few edges are cut.

docs/decisions/two-level.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.engine import OPTIONAL, Engine
from partition_ops.stages.partition.engines import metis, random
from partition_ops.stages.partition.metis_library import cut_graph
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.graph import (
    Constraints,
    Graph,
    Labels,
    constraints_of,
    largest_degree,
)
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.problem import METIS_TOLERANCE, Parts, Problem

MANY_PARTS = 16
CLUSTERS = (32,)  # by level, how many clusters of the largest size make a partition
CLUSTERS_OF_MANY = (64, 16)  # the same with more than `MANY_PARTS` partitions
FEW_NODES = 20_000  # METIS partitions a graph of so many directly
MOST_HALF_EDGES = 1 << 24  # in a graph of clusters; a larger one is contracted again
LEAST_SHRINKING = 0.8  # with more clusters than this share of the nodes, a level is not worthwhile
CLUSTERED = 0.15  # with at most this share of clusters, the graph has communities
SKEWED = 100  # with this ratio of the largest degree to the mean degree, the graph has hubs


class TwoLevel(Engine):
    """METIS over clusters, and refinement."""

    name = "two-level"
    supports = frozenset(OPTIONAL) - {"objective"}

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges, every column of the weights balanced.

        Clusters of the graph are contracted to a much smaller one with weights, METIS cuts that with one
        constraint a column, and nodes at the borders move on the whole graph while that lowers the cut.

        Returns:
            (nodes,) int32, partition by homogeneous ID.

        Raises:
            EngineError: METIS failed.

        Peak memory: 36 bytes a node; 12 bytes a half-edge of the graph of clusters, which has a tenth of the
        graph's if that has communities, and 180 bytes a half-edge of the last such graph, which has at most
        2**24; for each thread up to 200 bytes times the largest degree. The graph itself stays mapped if its
        file has 32 bits for a neighbour, and takes 4 bytes a half-edge otherwise.
        """
        return partition_by_levels(problem, or_metis=False)


def partition_by_levels(problem: Problem, *, or_metis: bool) -> Parts:
    """Partition a graph; see `TwoLevel.partition`.

    Args:
        problem: The graph, and how to partition it.
        or_metis: Whether METIS may partition the whole graph instead, if that is expected to cut fewer edges;
            `Problem.notes` then says which engine was chosen.

    Returns:
        (nodes,) int32, partition by homogeneous ID.

    Raises:
        EngineError: METIS failed.
    """
    graph = Graph.of_input(problem.graph)
    if problem.num_parts == 1:
        return np.zeros(graph.num_nodes, np.int32)
    if graph.num_half_edges == 0 or graph.num_nodes <= problem.num_parts:
        return random.ENGINE.partition(problem)
    if problem.config.objective == "vol":
        problem.notes["chosen"] = "metis"
        return metis.ENGINE.partition(problem)
    return _Levels(problem, graph, or_metis=or_metis).run()


class _Levels:
    """Partitions one graph."""

    def __init__(self, problem: Problem, graph: Graph, *, or_metis: bool) -> None:
        self.problem = problem
        self.graph = graph
        self.or_metis = or_metis

    def run(self) -> Parts:
        parts = self._cut(self.graph, self.constraints)
        if self.or_metis:
            self.problem.notes.setdefault("chosen", "two-level")
        return parts

    @cached_property
    def constraints(self) -> Constraints:
        return constraints_of(self.problem)

    def _cut(self, graph: Graph, constraints: Constraints, level: int = 0) -> Labels:
        """Partition a graph, through the graph of its clusters if that is worthwhile."""
        smaller = self._smaller(graph, level)
        if smaller is None:
            parts = self._metis(graph, constraints)
        else:
            contracted, labels = smaller
            parts = self._cut(contracted, constraints.contracted(labels, contracted.num_nodes), level + 1)[
                labels
            ]
        refine(graph, constraints, parts)
        return parts

    def _smaller(self, graph: Graph, level: int) -> tuple[Graph, Labels] | None:
        """Return the graph of the clusters and the cluster of each node; None if METIS takes this graph."""
        whole = graph is self.graph
        count = self._clusters_of_a_part(graph, level)
        if count == 0 or graph.num_half_edges == 0 or (whole and graph.num_nodes <= FEW_NODES):
            return None
        most = max(2, self.graph.num_nodes // (count * self.problem.num_parts))
        labels = find_clusters(graph, most, self.problem.config.seed)
        connected = np.count_nonzero(graph.offsets[1:] > graph.offsets[:-1])
        used = np.zeros(graph.num_nodes, np.bool_)
        used[labels] = True
        share = (np.count_nonzero(used) - (graph.num_nodes - connected)) / connected
        largest = largest_degree(graph.offsets)
        if (
            whole
            and self.or_metis
            and share > CLUSTERED
            and largest * connected < SKEWED * graph.num_half_edges
        ):
            self.problem.notes["chosen"] = "metis"
            return None
        return contract(graph, labels) if share <= LEAST_SHRINKING else None

    def _clusters_of_a_part(self, graph: Graph, level: int) -> int:
        """Return how many clusters of the largest size make a partition; 0 for no further level."""
        counts = CLUSTERS if self.problem.num_parts <= MANY_PARTS else CLUSTERS_OF_MANY
        if level < len(counts):
            return counts[level]
        more = counts[-1] >> (level - len(counts) + 1)
        return more if graph.num_half_edges > MOST_HALF_EDGES else 0

    def _metis(self, graph: Graph, constraints: Constraints) -> Labels:
        weights = constraints.weights if len(constraints.weights) else self.problem.weights
        weights = np.ascontiguousarray(weights[:, weights.any(axis=0)])  # METIS divides by their sums
        edge_weights = graph.edge_weights if len(graph.edge_weights) else None
        config = replace(self.problem.config, tolerance=self.problem.config.tolerance or METIS_TOLERANCE)
        return cut_graph(config, ParhipGraph(graph.offsets, graph.neighbours), weights, edge_weights)


ENGINE = TwoLevel()
