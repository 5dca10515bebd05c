"""Engine ``auto``: the best of several partitions of a graph that is not large, else that of two-level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.engine import OPTIONAL, Engine, PreviousAssignment
from partition_ops.stages.partition.engines.two_level import partition_by_levels
from partition_ops.stages.partition.incremental.near_home import search_near_home
from partition_ops.stages.partition.incremental.placement import place_and_refine
from partition_ops.stages.partition.incremental.regroup import regroup
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of
from partition_ops.stages.partition.multilevel.tries import Tries
from partition_ops.stages.partition.options import FEW, TINY, starts_of_auto
from partition_ops.stages.partition.problem import Parts, Problem

SAMPLED = 2  # starts, to tell whether a grown graph must be cut more
PAYS = 3  # a full run moves a third of the nodes; it must gain so many times what the drift may lose


class Auto(Engine):
    """The default engine."""

    name = "auto"
    supports = frozenset(OPTIONAL)

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges; `Problem.notes` says how.

        With the default effort, a graph with up to 4 million nodes and ends of edges gets several partitions,
        and one with up to 16 million gets two; the best one is kept, see `Tries` and `starts_of_auto`. METIS
        partitions a larger graph without hubs and communities, such as a grid or roads. Any other is
        partitioned as by two-level, and a second time if the search for moves saves much. METIS also gets
        the objective ``vol``.

        Returns:
            (nodes,) int32, partition by homogeneous ID.

        Raises:
            EngineError: METIS failed.

        Peak memory: that of `Tries`; for a larger graph that of the engine, and of `climb` if `is_searched`.
        """
        starts = number_of_starts(problem)
        if starts == 0:
            return partition_by_levels(problem, auto=True)
        graph = Graph.of_input(problem.graph)
        thorough = _work(graph) >= TINY
        alone = starts == FEW or not thorough or problem.config.target_shares is not None
        file = None if alone else problem.graph_file
        problem.notes["chosen"] = f"best of {starts if file is None else 2 * starts}"
        limits = constraints_of(problem)
        return Tries(
            problem.config, graph, limits, starts, file, thorough=thorough, progress=problem.progress
        ).run()

    def follow(self, problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
        """Yield assignments of a grown graph: of one that is not large, first the best of a search."""
        starts = number_of_starts(problem)
        if starts > FEW:
            near = search_near_home(problem, previous, starts)
            if near is not None:
                yield near
        else:
            yield from place_and_refine(problem, previous)
        yield from regroup(problem, previous)

    def sample(self, problem: Problem) -> Parts | None:
        """Partition a graph that is not large from few starts."""
        if number_of_starts(problem) <= FEW:
            return None
        graph = Graph.of_input(problem.graph)
        limits = constraints_of(problem)
        return Tries(
            problem.config, graph, limits, SAMPLED, None, thorough=False, progress=problem.progress
        ).run()

    def most_drift(self, problem: Problem) -> float:
        """Return the option, or more for a graph that is not large."""
        drift = problem.config.drift
        return 1 + PAYS * (drift - 1) if number_of_starts(problem) > FEW else drift


def number_of_starts(problem: Problem) -> int:
    """Return how many partitions to make, by the size of the graph and the effort; see `starts_of_auto`."""
    config, graph = problem.config, problem.graph
    connected = int(np.count_nonzero(np.diff(graph.offsets)))
    special = problem.num_parts == 1 or config.objective == "vol" or connected <= problem.num_parts
    sums = graph.num_nodes * problem.num_parts
    return 0 if special else starts_of_auto(config.effort, _work(graph), sums)


def _work(graph: Graph | ParhipGraph) -> int:
    return graph.num_nodes + graph.num_half_edges


ENGINE = Auto()
