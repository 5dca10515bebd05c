"""Engine ``auto``: the best of several partitions of a graph that is not large, else that of two-level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from partition_ops.artifacts.cost import Machine, Sizes
from partition_ops.errors import EngineError
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost
from partition_ops.stages.partition.engines import metis
from partition_ops.stages.partition.engines.random import without_cut
from partition_ops.stages.partition.engines.two_level import (
    cost_over_clusters,
    cut_over_clusters,
    levels_of_clusters,
    with_graph,
)
from partition_ops.stages.partition.incremental.near_home import search_near_home
from partition_ops.stages.partition.incremental.placement import place_and_refine
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.incremental.regroup import regroup
from partition_ops.stages.partition.metis_library import LibraryDiedError
from partition_ops.stages.partition.multilevel.graph import Graph, cut_weight, largest_degree
from partition_ops.stages.partition.multilevel.tries import best_of
from partition_ops.stages.partition.multilevel.tuning import NEXT_SEED, TUNINGS, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem

# seconds of a processor for each start, with what follows, in 2 partitions: on a graph of one node type, and
# of several; for a node, and a half-edge. Then the share that each of up to 64 partitions adds.
# To renew: python -m benchmarks.estimates --real all --output benchmarks/results, and the seconds of
# benchmarks/results/real_graphs.json for more partitions
START, TYPED_START, NODE, HALF_EDGE, FURTHER_PARTITION = 0.15, 0.35, 9e-6, 0.6e-6, 0.11


class Auto(Engine):
    """The default engine."""

    name = "auto"
    supports = frozenset(OPTIONAL)

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges; `Problem.notes` says how.

        With the default effort, a graph with up to 4 million nodes and ends of edges gets several partitions,
        and one with up to 16 million gets two; the best one is kept, see `best_of` and `starts_of_auto`.
        METIS partitions a larger graph without hubs and communities, such as a grid or roads. Any other is
        partitioned as by two-level, and a second time if the search for moves saves much. METIS also gets
        the objective ``vol``.

        Returns:
            (nodes,) int32, partition by homogeneous ID.

        Raises:
            EngineError: METIS failed.

        Peak memory: that of `best_of`; for a larger graph, that of the engine, and of `climb` if it is
        searched.
        """
        starts = number_of_starts(problem)
        if starts == 0:
            return _partition_large(problem)
        thorough = problem.graph.num_nodes + problem.graph.num_half_edges >= problem.tuning.tiny
        alone = starts == problem.tuning.few_starts or not thorough
        with_kaminpar = not alone and problem.config.target_shares is None
        problem.notes["chosen"] = f"best of {2 * starts if with_kaminpar else starts}"
        return best_of(problem, starts, with_kaminpar=with_kaminpar, thorough=thorough)

    def follow(self, problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
        """Yield assignments of a grown graph: of one that is not large, first the best of a search."""
        starts = number_of_starts(problem)
        if starts > problem.tuning.few_starts:
            near = search_near_home(problem, previous, starts)
            if near is not None:
                yield near
        else:
            yield from place_and_refine(problem, previous)
        yield from regroup(problem, previous)

    def sample(self, problem: Problem) -> Parts | None:
        """Partition a graph that is not large from few starts."""
        if number_of_starts(problem) <= problem.tuning.few_starts:
            return None
        return best_of(problem, problem.tuning.near_home.sampled, with_kaminpar=False, thorough=False)

    def most_drift(self, problem: Problem) -> float:
        """Return the option, or more for a graph that is not large."""
        drift, tuning = problem.config.drift, problem.tuning
        many = number_of_starts(problem) > tuning.few_starts
        return 1 + tuning.near_home.pays * (drift - 1) if many else drift

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        if config.objective == "vol":
            return metis.ENGINE.cost(config, sizes, machine)
        tuning, parts, memory = TUNINGS[config.effort], config.all_parts, metis.metis_memory(config, sizes)
        work, sums = sizes.nodes + sizes.half_edges, sizes.nodes * parts
        if starts := 0 if config.num_parts == 1 else starts_of_auto(tuning, work, sums):
            at_a_time = min(machine.cores, starts)
            each = TYPED_START if len(sizes.metadata.node_types) > 1 else START
            each += NODE * sizes.nodes + HALF_EDGE * sizes.half_edges
            seconds = starts * each * (1 + FURTHER_PARTITION * (parts - 2)) / at_a_time
            held = memory + 4 * sizes.nodes * (15 + parts * at_a_time)
            found = with_graph(EngineCost(held=held, seconds=seconds), sizes)
        else:
            searched = is_searched(tuning, sizes.half_edges, sums)
            found = cost_over_clusters(config, sizes, searched=searched)
        if memory <= machine.memory:
            return found
        warning = (
            "auto may choose METIS, for graphs such as grids and roads, which needs about"
            f" {memory / 2**30:.1f} GiB: more than this machine has"
        )
        return replace(found, warnings=(warning,))


def number_of_starts(problem: Problem) -> int:
    """Return how many partitions to make, by the size of the graph and the effort; see `starts_of_auto`."""
    graph = problem.graph
    connected = int(np.count_nonzero(np.diff(graph.offsets)))
    if problem.num_parts == 1 or problem.config.objective == "vol" or connected <= problem.num_parts:
        return 0
    work, sums = graph.num_nodes + graph.num_half_edges, graph.num_nodes * problem.num_parts
    return starts_of_auto(problem.tuning, work, sums)


def starts_of_auto(tuning: Tuning, work: int, sums: int) -> int:
    """Return how many partitions to make of a graph by METIS, each from a start of its own.

    0 leaves the graph to one or two partitionings over the same clusters.

    Args:
        tuning: That of the effort.
        work: Nodes and half-edges of the graph.
        sums: Nodes times partitions.
    """
    if work > tuning.most_work or sums > tuning.most_sums:
        return 0
    if work > tuning.large:
        return tuning.few_starts
    least, most = tuning.starts
    return least if work < tuning.tiny else min(max(tuning.shared_work // work, least), most)


def is_searched(tuning: Tuning, half_edges: int, sums: int) -> bool:
    """Return whether a graph, or a graph of its clusters, is searched for moves; arguments as for both."""
    return half_edges <= tuning.most_searched and sums <= tuning.most_sums_searched


def _partition_large(problem: Problem) -> Parts:
    """Partition a graph once or twice; METIS partitions one that it is expected to cut better."""
    parts, tuning, seed = without_cut(problem), problem.tuning, problem.config.seed
    if parts is not None:
        return parts
    problem.notes["chosen"] = "two-level"
    if problem.config.objective == "vol":
        problem.notes["chosen"] = metis.ENGINE.name
        return metis.ENGINE.partition(problem)

    def suits(graph: Graph, clusters: float) -> bool:
        connected = np.count_nonzero(graph.offsets[1:] > graph.offsets[:-1])
        hubs = largest_degree(graph.offsets) * connected >= tuning.skewed * graph.num_half_edges
        if clusters <= tuning.clustered or hubs:
            return True
        problem.notes["chosen"] = metis.ENGINE.name
        return False

    def searched(graph: Graph) -> bool:
        return is_searched(tuning, graph.num_half_edges, graph.num_nodes * problem.num_parts)

    levels = levels_of_clusters(problem, suits)
    graph, constraints = levels[0][:2]
    parts, saved = cut_over_clusters(problem, levels, seed, searched)
    again = tuning.second_start and len(levels) > 1 and searched(graph)
    if not again or saved <= tuning.promising * cut_weight(graph, parts):
        return parts
    try:
        other, _ = cut_over_clusters(problem, levels, seed + NEXT_SEED, searched)
    except LibraryDiedError:  # a later attempt may succeed, with another result
        raise
    except EngineError:
        return parts
    return min((parts, other), key=lambda one: (not constraints.kept_by(one), cut_weight(graph, one)))


ENGINE = Auto()
