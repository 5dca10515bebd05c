"""Engine ``auto``: few edges are cut, for at most half of the processor time of the rest of the job.

docs/decisions/search.md has the reasons, and what else was tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from partition_ops.artifacts.cost import Machine, Sizes
from partition_ops.artifacts.parhip import MOST_NARROW_NODES
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost
from partition_ops.stages.partition.engines import metis
from partition_ops.stages.partition.engines.random import without_cut
from partition_ops.stages.partition.engines.two_level import cost_over_clusters, with_graph
from partition_ops.stages.partition.incremental.near_home import regroup, search_near_home
from partition_ops.stages.partition.incremental.placement import place_and_refine
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.tries import Tries, ranked
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, RATES, TUNINGS, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem

CLUSTERED_BYTES, CLUSTERED_BYTES_OF_MANY = 6, 28  # of a half-edge of the graph, in the graphs of clusters


class Plan(NamedTuple):
    """How often a graph is partitioned."""

    # for each start, how many clusters of the largest size make a partition; 0 for no clusters
    starts: tuple[int, ...]
    combined: int  # so many of the best partitions are combined, each with every other
    rounds: int  # most rounds of combinations
    evaluations: int = 0  # of the model of the traffic, to lower that of each of the best partitions


class Auto(Engine):
    """The default engine."""

    name = "auto"
    supports = frozenset(OPTIONAL)
    recorded = frozenset(("effort", "sampling"))
    most_nodes = MOST_NARROW_NODES
    objectives = ("cut", "vol", "train")

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges; `Problem.notes` says how.

        `plan_of` says how many partitions are made, and `best_of` makes them and says what that takes. METIS
        alone gets the objective ``vol``.
        """
        parts = without_cut(problem)
        if parts is not None:
            return parts
        if problem.config.objective == "vol":
            problem.notes["chosen"] = metis.ENGINE.name
            return metis.ENGINE.partition(problem)
        problem = tuned(problem)
        return best_of(problem, plan_for(problem))

    def weighs_edges(self, problem: Problem) -> bool:
        """Return whether weights are worth their time, which is that of a partition.

        A graph that is so large that it is partitioned once gets them only if batches read some edges much
        more than others; they change little otherwise.
        """
        return problem.uneven or len(plan_for(problem).starts) > 1

    def follow(self, problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
        """Yield assignments of a grown graph: of one that is not large, first the best of a search."""
        starts = number_of_starts(problem)
        if starts > 1:
            near = search_near_home(problem, previous, starts)
            if near is not None:
                yield near
        else:
            yield from place_and_refine(problem, previous)
        yield from regroup(problem, previous)

    def sample(self, problem: Problem) -> Parts | None:
        """Partition a graph that is not large from few starts."""
        if number_of_starts(problem) <= 1:
            return None
        plan = plan_for(problem)
        return best_of(problem, plan._replace(starts=plan.starts[: problem.tuning.near_home.sampled]))

    def most_drift(self, problem: Problem) -> float:
        """Return the option, or more for a graph that is not large."""
        drift = problem.config.drift
        return 1 + problem.tuning.near_home.pays * (drift - 1) if number_of_starts(problem) > 1 else drift

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        if config.objective == "vol":
            return metis.ENGINE.cost(config, sizes, machine)
        tuning, parts = TUNINGS[config.effort], config.all_parts
        plan = plan_of(tuning, sizes.nodes, sizes.half_edges, parts)
        at_a_time = min(machine.cores, len(plan.starts))
        searched = 4 * parts if sizes.nodes * parts <= tuning.most_sums else 0
        clustered = CLUSTERED_BYTES_OF_MANY if parts > tuning.many_parts else CLUSTERED_BYTES
        held = (sizes.nodes * (60 + searched) + clustered * sizes.half_edges) * at_a_time
        if 0 in plan.starts:
            held = max(held, metis.metis_memory(config, sizes) + sizes.nodes * (60 + searched))
        seconds = seconds_of(plan, sizes.half_edges, parts) / at_a_time
        if len(plan.starts) == 1:
            seconds = min(seconds, cost_over_clusters(config, sizes, searched=True).seconds)
        found = replace(with_graph(held, seconds, sizes), weighs=len(plan.starts) > 1)
        memory = metis.metis_memory(config, sizes)
        if memory <= machine.memory:
            return found
        warning = (
            "auto may choose METIS, for graphs such as grids and roads, which needs about"
            f" {memory / 2**30:.1f} GiB: more than this machine has"
        )
        return replace(found, warnings=(warning,))


def best_of(problem: Problem, plan: Plan) -> Parts:
    """Partition a graph several times, combine the best of these partitions, and return the best of all.

    METIS partitions a graph without hubs and communities, such as a grid or roads, as a whole instead of the
    first start. `Problem.notes` says how often the graph was partitioned. With a model of the traffic, that
    says which partition is the best, and lowers the traffic of the best ones further.

    Returns:
        (nodes,) int32, the same on any number of cores.

    Raises:
        EngineError: The libraries failed in every start, or a process of theirs died.

    Peak memory: for each core, or once with one start, 60 bytes a node, 100 bytes a half-edge of the first
        graph of clusters, and 4 bytes for each node and partition; METIS on the whole graph takes 100 bytes
        a half-edge. 4 bytes a half-edge if more than a few nodes have no neighbours.
    """
    tuning = problem.tuning
    # whatever the effort is, because what a lower effort makes takes part
    settled = tuning.pass_settled_of_large if _is_large(problem) else tuning.pass_settled
    of_first = replace(tuning, pass_settled=settled)
    with Tries(problem, nearly_even=_starts_even(problem), first=of_first) as tries:
        starts = plan.starts
        if not tries.has_clusters():
            starts = (0, *(clusters for clusters in starts[1:] if clusters))
        works = [partial(tries.start, *one) for one in enumerate(starts)]
        if problem.traffic is not None and len(starts) > 1:  # neither weights nor their absence always win
            if problem.uneven:
                works.append(partial(tries.start, len(starts), starts[0], weighted=False))
            else:  # instead of one with weights, which gain least here: what a lower effort makes
                works[-1] = partial(tries.start, 0, starts[0], weighted=False)
        tries.alone = len(works) == 1 and not tuning.quality_starts
        found = tries.do_all(works)
        made = len(works) + tuning.quality_starts
        problem.notes["chosen"] = tries.chosen if tries.alone else f"best of {made}"
        first = found[0]  # the only one with a lower effort, which must not cut less in the end
        best = tries.combine(found, plan.rounds, plan.combined)
        if tuning.quality_starts:  # a lower effort ends here, and must not cut less
            further = [partial(tries.start, one, 0, preset="QUALITY") for one in range(len(works), made)]
            whole = tries.do_all(further)
            best = tries.combine([best, *whole], 1, 1 + len(whole))
        chosen = [best] if best is first else [best, first]
        if problem.traffic is not None:
            chosen = ranked([*found, best])[: tuning.descents]
            lower = 0 if problem.uneven else len(works) - 1  # what a lower effort makes may win in the end
            chosen += [one for one in found if one.order == lower and not any(one is two for two in chosen)]
        done = [*tries.pool.map(lambda one: tries.finished(one.parts, plan.evaluations), chosen)]
    if len(done) == 1:
        return done[0]
    return min(done, key=lambda parts: (not tries.limits.kept_by(parts), tries.cost(parts)))


def _starts_even(problem: Problem) -> bool:
    """Return whether the graph is large and gets few partitions.

    With 64 partitions, nearly even train nodes gained nothing, and cost the slowest trainer 1 to 5 %.
    """
    return problem.num_parts <= problem.tuning.many_parts and _is_large(problem)


def _is_large(problem: Problem) -> bool:
    """Return whether the graph gets one start by default, whatever the effort is."""
    graph = problem.graph
    return len(plan_of(DEFAULT, graph.num_nodes, graph.num_half_edges, problem.num_parts).starts) == 1


def tuned(problem: Problem) -> Problem:
    """Return the problem with the constants for a graph that Mt-KaHyPar can partition, if it is one.

    It has one balance constraint, few partitions, and at most `Tuning.most_work_of_kahypar` half-edges.
    """
    tuning, config = problem.tuning, problem.config
    one = not problem.classes.any() and config.balance != "edges"
    few = problem.num_parts <= tuning.most_of_kahypar
    if tuning.with_kahypar and one and few and problem.graph.num_half_edges <= tuning.most_work_of_kahypar:
        return problem.but(preset=tuning.with_kahypar)
    return problem


def plan_for(problem: Problem) -> Plan:
    """Return the plan for a graph; see `plan_of`.

    The predicted time of evaluations of the traffic, with that of reading its edges, stays within a share of
    the rest of the job.
    """
    graph, tuning, traffic = problem.graph, problem.tuning, problem.traffic
    plan = plan_of(tuning, graph.num_nodes, graph.num_half_edges, problem.num_parts)
    if traffic is None:
        return plan
    share = tuning.for_uneven_traffic if problem.uneven else tuning.for_traffic
    edges, blocks = traffic.edges.num_edges, math.ceil(problem.num_parts / 4)
    constant, of_node, of_edge = RATES.evaluation
    one = constant + blocks * (of_node * graph.num_nodes + of_edge * edges * len(traffic.fanouts))
    reading = RATES.reading * problem.metadata.edge_offsets[-1]
    budget = share * _seconds(RATES.rest, graph.num_half_edges, problem.num_parts) - reading
    descents = tuning.descents + 1  # of the best partitions, and of the one that a lower effort makes
    evaluations = int(min(max(budget, 0.0) / one / descents, tuning.most_evaluations))
    return plan._replace(evaluations=evaluations)


def plan_of(tuning: Tuning, nodes: int, half_edges: int, parts: int) -> Plan:
    """Return how many partitions of a graph to make with a tuning, and how many of them to combine.

    The first start is always made. Further ones follow in the order of `Tuning.starts`, in turns, and then
    combinations, as long as their predicted time stays within `Tuning.share` of that of the rest of the job.
    So small graphs get several partitions, and large ones get one, without a limit in between.
    """
    if nodes * parts > tuning.most_sums:  # there is no room for searches, so combinations save little
        return Plan(tuning.starts[:1], 1, 0)
    budget = tuning.share * _seconds(RATES.rest, half_edges, parts) if tuning.share else 0.0
    starts, spent = [tuning.starts[0]], _seconds(RATES.over_clusters, half_edges, parts)
    for number in range(1, tuning.most_starts):
        clusters = tuning.starts[number % len(tuning.starts)]
        more = _seconds(RATES.over_clusters if clusters else RATES.whole, half_edges, parts)
        if spent + more <= (budget if len(starts) == 1 else tuning.for_starts * budget):
            starts.append(clusters)
            spent += more
    each, combined, rounds = _seconds(RATES.combination, half_edges, parts), 1, 0
    for count in range(2, min(len(starts), tuning.combined) + 1):
        pairs = math.comb(count, 2)
        if spent + pairs * each <= budget:
            combined, rounds = count, tuning.most_rounds
            if budget < math.inf:
                rounds = min(int((budget - spent) / (pairs * each)), rounds)
    return Plan(tuple(starts), combined, rounds)


def seconds_of(plan: Plan, half_edges: int, parts: int) -> float:
    """Return the predicted processor seconds of a plan."""
    rates = (RATES.over_clusters if clusters else RATES.whole for clusters in plan.starts)
    starts = sum(_seconds(rate, half_edges, parts) for rate in rates)
    return starts + plan.rounds * math.comb(plan.combined, 2) * _seconds(RATES.combination, half_edges, parts)


def _seconds(rate: tuple[float, ...], half_edges: int, parts: int) -> float:
    return rate[0] + half_edges * (rate[1] + (rate[2] * parts if len(rate) > 2 else 0.0))


def number_of_starts(problem: Problem) -> int:
    """Return how many partitions to make; 0 if there is nothing to search."""
    connected = int(np.count_nonzero(np.diff(problem.graph.offsets)))
    if problem.num_parts == 1 or problem.config.objective == "vol" or connected <= problem.num_parts:
        return 0
    return len(plan_for(problem).starts)


ENGINE = Auto()
