"""Engine ``two-level``: METIS over clusters of nodes, then refinement; fast, and few edges are cut.

docs/decisions/two-level.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import EngineError
from partition_ops.stages.partition.engine import OPTIONAL, Engine
from partition_ops.stages.partition.engines import metis, random
from partition_ops.stages.partition.metis_library import LibraryDiedError, cut_graph
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.fm import climb
from partition_ops.stages.partition.multilevel.graph import (
    Constraints,
    Graph,
    Labels,
    constraints_of,
    edge_cut,
    largest_degree,
)
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.tries import NEXT_SEED, Level
from partition_ops.stages.partition.options import is_searched
from partition_ops.stages.partition.problem import METIS_TOLERANCE, Parts, Problem

MANY_PARTS = 16
CLUSTERS = (32,)  # by level, how many clusters of the largest size make a partition
CLUSTERS_OF_MANY = (64, 16)  # the same with more than `MANY_PARTS` partitions
FEW_NODES = 20_000  # METIS partitions a graph of so many directly
MOST_HALF_EDGES = 1 << 24  # in a graph of clusters; a larger one is contracted again
PROMISING = 0.01  # share of the cut that the search on the whole graph must save for another start
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
        return partition_by_levels(problem, auto=False)


def partition_by_levels(problem: Problem, *, auto: bool) -> Parts:
    """Partition a graph; see `TwoLevel.partition`.

    Args:
        problem: The graph, and how to partition it.
        auto: Whether METIS may partition the whole graph instead, if that is expected to cut fewer edges.
            Searches for moves then follow on every graph that is not too large, and METIS starts a second
            time if the search on the whole graph saves much. `Problem.notes` says which engine was chosen.

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
    return _Levels(problem, graph, auto=auto).run()


class _Levels:
    """Partitions one graph."""

    def __init__(self, problem: Problem, graph: Graph, *, auto: bool) -> None:
        self.problem = problem
        self.graph = graph
        self.auto = auto
        self.saved = 0  # weight of edges, by the last search: the one on the whole graph, if that is searched

    def run(self) -> Parts:
        levels, graph, constraints = self._levels()
        seed = self.problem.config.seed
        parts = self._cut(levels, graph, constraints, seed)
        if self.auto:
            self.problem.notes.setdefault("chosen", "two-level")
        if not self._may_start_again(graph) or self.saved <= PROMISING * edge_cut(self.graph, parts).pairs:
            return parts
        try:
            other = self._cut(levels, graph, constraints, seed + NEXT_SEED)
        except LibraryDiedError:  # a later attempt may succeed, with another result
            raise
        except EngineError:
            return parts
        return min((parts, other), key=self._rank)

    def _rank(self, parts: Parts) -> tuple[bool, int]:
        broken = bool((self.constraints.loads(parts) > self.constraints.most).any())
        return broken, edge_cut(self.graph, parts).pairs

    @cached_property
    def constraints(self) -> Constraints:
        return constraints_of(self.problem)

    def _levels(self) -> tuple[list[Level], Graph, Constraints]:
        """Return the graph and smaller ones of its clusters, but the smallest; then the smallest."""
        levels: list[Level] = []
        graph, constraints = self.graph, self.constraints
        while smaller := self._smaller(graph, len(levels)):
            levels.append((graph, constraints, smaller[1]))
            graph, constraints = smaller[0], constraints.contracted(smaller[1], smaller[0].num_nodes)
        return levels, graph, constraints

    def _may_start_again(self, smallest: Graph) -> bool:
        """Return whether METIS may partition the graph of clusters from another seed."""
        if not self.auto or self.problem.config.effort == "fast" or smallest is self.graph:
            return False
        return self._is_searched(self.graph)

    def _cut(self, levels: list[Level], graph: Graph, constraints: Constraints, seed: int) -> Labels:
        """Partition the smallest graph by METIS, and refine on every level."""
        parts = self._metis(graph, constraints, seed)
        self._improve(graph, constraints, parts)
        for graph, constraints, labels in reversed(levels):
            parts = parts[labels]
            self._improve(graph, constraints, parts)
        return parts

    def _improve(self, graph: Graph, constraints: Constraints, parts: Labels) -> None:
        refine(graph, constraints, parts)
        if self.auto and self._is_searched(graph):
            self.saved = climb(graph, constraints, parts, self.problem.config.seed)

    def _is_searched(self, graph: Graph) -> bool:
        return is_searched(graph.num_half_edges, graph.num_nodes * self.problem.num_parts)

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
        if whole and self.auto and share > CLUSTERED and largest * connected < SKEWED * graph.num_half_edges:
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

    def _metis(self, graph: Graph, constraints: Constraints, seed: int) -> Labels:
        weights = constraints.weights if len(constraints.weights) else self.problem.weights
        weights = np.ascontiguousarray(weights[:, weights.any(axis=0)])  # METIS divides by their sums
        edge_weights = graph.edge_weights if len(graph.edge_weights) else None
        config = self.problem.config
        config = replace(config, tolerance=config.tolerance or METIS_TOLERANCE, seed=seed % 2**31)
        return cut_graph(config, ParhipGraph(graph.offsets, graph.neighbours), weights, edge_weights)


ENGINE = TwoLevel()
