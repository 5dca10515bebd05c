"""Follow a graph that has grown by moving clusters: `search_near_home`, and `regroup` for large graphs.

In `search_near_home`, every node has ties to its old partition, at several prices, as in the model with fixed
vertices of Catalyurek et al., "Hypergraph-based dynamic load balancing for adaptive scientific computations"
(2007). `regroup` is the multilevel way of adaptive repartitioning. Source: Schloegel, Karypis, Kumar, "A
unified algorithm for load-balancing adaptive scientific simulations" (2000). Our own addition is that
partitions may hold too much while clusters are large. docs/decisions/growth.md has the reasons, and what else
was tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from partition_ops.stages.partition.incremental.placement import place_and_refine, place_new_nodes
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.graph import (
    NOWHERE,
    Constraints,
    Graph,
    Integers,
    Labels,
    constraints_of,
)
from partition_ops.stages.partition.multilevel.improve import climb, improve
from partition_ops.stages.partition.multilevel.levels import Level, contract_levels
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.search import Homes
from partition_ops.stages.partition.multilevel.tries import Candidate, Tries, overlay, ranked
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.compilation import compiled_with_arrays

logger = logging.getLogger("partition_ops")


def search_near_home(problem: Problem, previous: PreviousAssignment, starts: int) -> Parts | None:
    """Return a partition that cuts few edges, and moves at most a tenth of the old nodes, if balance permits.

    New nodes join their neighbours. Then clusters of any nodes, each in the partition of most of its nodes,
    move between partitions where that saves more edges than the price of the old nodes in them, and so do
    smaller clusters and single nodes. This is done several times, half as often as a full run makes
    ``starts``, with clusters of several sizes and at several prices. A result in which too many nodes moved
    is pulled back at higher prices. The best results are combined, and the one that cuts the fewest edges is
    kept, unless refinement around the changes cuts nearly as few. The search ends early if that cuts fewer
    than the first results. None is returned if balance cannot be restored.

    Peak memory: for each core 60 bytes a node, 100 bytes a half-edge, and 12 bytes for each node and
        partition.
    """
    with _NearHome(problem, previous) as tries:
        return tries.run(starts)


class _NearHome(Tries):
    """Searches around one old partition."""

    def __init__(self, problem: Problem, previous: PreviousAssignment) -> None:
        limits = constraints_of(problem)
        alone = (np.diff(problem.graph.offsets) == 0) & (previous.homes != NOWHERE)
        stay = limits.subset(alone).loads(previous.homes[alone])
        super().__init__(problem, limits._replace(most=(limits.most - stay).clip(0)))
        self.all_limits = limits
        self.previous = previous
        self.how = problem.tuning.near_home
        self.homes = previous.homes[self.connected]
        self.old = self.homes != NOWHERE
        self.nodes = np.zeros((len(self.homes), problem.num_parts), np.int32)
        self.nodes[self.old, self.homes[self.old]] = 1

    def run(self, starts: int) -> Parts | None:
        how, limits = self.how, self.all_limits
        placed = next(place_and_refine(self.problem, self.previous), None)
        if placed is None:
            placed = self.previous.homes.copy()
            place_new_nodes(self.whole, limits, placed)
        self.placed = placed[self.connected]
        most = int(how.most_moved * np.count_nonzero(self.previous.homes != NOWHERE))
        self.most_moved = max(most, self._moved(self.placed))
        starts = max(how.first, int(how.starts * starts))
        works: list[Callable[[], Labels]] = [lambda: self.placed]
        works += [partial(self._start, number) for number in range(starts)]
        found = self.do_all(works[: 1 + how.first])
        simple, chosen = found[0], ranked(found)[0]
        if chosen is not simple or simple.broken:  # otherwise the search does not pay
            found += self.do_all(works[1 + how.first :])
            chosen = self.combine(found, starts // how.starts_of_a_round, self.tuning.combined)
        if not simple.broken and simple.cut <= how.near * chosen.cut:
            chosen = simple
        if chosen.broken:
            return None
        parts = np.where(np.diff(self.whole.offsets) == 0, self.previous.homes, NOWHERE).astype(np.int32)
        parts[self.connected] = chosen.parts
        place_new_nodes(self.whole, limits, parts)
        return parts if limits.kept_by(parts) else None

    def judge(self, number: int, parts: Labels) -> Candidate:
        one, moved = super().judge(number, parts), self._moved(parts)
        return one._replace(broken=one.broken or moved > self.most_moved, order=moved)

    def _moved(self, parts: Labels) -> int:
        return int(np.count_nonzero((parts != self.homes) & self.old))

    def _start(self, number: int) -> Labels:
        """Return the partition of one start, after a search."""
        how, turn = self.how, number // len(self.how.clusters)
        clusters, price = how.clusters[number % len(how.clusters)], how.prices[turn % len(how.prices)]
        slack = self.tuning.slack * (number % 2)  # every other start
        parts = self._over_clusters(clusters, self.seed + number, self._homes_at(price), slack)
        return self._search(parts, parts, self.seed + number, price)

    def combined(self, better: Labels, other: Labels, seed: int) -> Labels:
        return self._search(better, overlay(better, other), seed, self.how.price_of_pairs)

    def _search(self, parts: Labels, cells: Labels, seed: int, price: float) -> Labels:
        """Search by a cycle, and again at higher prices while too many nodes moved."""
        parts = self.cycle(parts, cells, seed, self._homes_at(price))
        for _ in range(self.how.most_pulls):
            if self._moved(parts) <= self.most_moved:
                break
            price *= self.how.dearer
            parts = self.cycle(parts, overlay(parts, self.placed), seed, self._homes_at(price))
        return parts

    def _homes_at(self, factor: float) -> Homes:
        return Homes(self.nodes, factor * self.problem.price)

    def _over_clusters(self, clusters: int, seed: int, homes: Homes, slack: float) -> Labels:
        """Search on a graph of clusters, which need not keep to the old partitions, and on larger ones.

        So many clusters of the largest size make a partition; ``slack`` is that of `regroup`.
        """
        levels = self.contracted(clusters, seed, homes=homes)
        votes = Homes(np.zeros_like(self.nodes), 0)
        votes.nodes[np.arange(len(self.placed)), self.placed] = 1
        for level, smaller in pairwise(levels):
            votes = votes.contracted(level.labels, smaller.graph.num_nodes)
        parts = votes.nodes.argmax(axis=1).astype(np.int32)
        graph, constraints = levels[-1].graph, loosen(levels[-1].constraints, slack if levels[1:] else 0)
        first = levels[-1].homes or homes
        refine(graph, constraints, parts, homes=first.of_most(), price=first.price, tuning=self.tuning)
        tried: list[tuple[int, int, Labels]] = []
        for number in range(self.how.searches if levels[1:] else 1):
            one, place = parts.copy(), seed * self.how.searches + number
            saved = climb(graph, constraints, one, place, homes=first, tuning=self.tuning)
            tried.append((-saved, number, one))
        parts = min(tried, key=lambda one: one[:2])[-1]
        for level in reversed(levels[:-1]):
            parts, slack = parts[level.labels], slack * self.tuning.less_slack
            constraints = loosen(level.constraints, 0 if level is levels[0] else slack)
            improve(level.graph, constraints, parts, seed, homes=level.homes, tuning=self.tuning)
        return parts


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
    whole = Level.of(problem)._replace(cells=previous.homes)
    most = max(2, whole.graph.num_nodes // (tuning.regroup.clusters[0] * problem.num_parts))
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
