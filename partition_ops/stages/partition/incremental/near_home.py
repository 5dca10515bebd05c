"""Follow a graph that has grown and is not large: several partitions near the old one, the best of them kept.

Every node has ties to its old partition, as in the model with fixed vertices of Catalyurek et al.,
"Hypergraph-based dynamic load balancing for adaptive scientific computations" (2007), at several prices.
docs/decisions/growth.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partition_ops.stages.partition.incremental.placement import place_and_refine, place_new_nodes
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.incremental.regroup import LESS_SLACK, SLACK, loosen
from partition_ops.stages.partition.multilevel.fm import climb
from partition_ops.stages.partition.multilevel.graph import Constraints, Graph, Labels, constraints_of
from partition_ops.stages.partition.multilevel.refine import NOWHERE, refine
from partition_ops.stages.partition.multilevel.sums import Homes
from partition_ops.stages.partition.multilevel.tries import (
    COMBINED,
    Candidate,
    Tries,
    different,
    new_pairs,
    overlay,
)
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.parallel import cores

MOST_MOVED = 0.1  # share of the old nodes
CLUSTERS = (256, 512, 128)  # of the largest size make a partition; the starts take turns
PRICES = (0.05, 0.03, 0.1)  # multiples of the migration price; the starts take turns
DEARER = 3  # factor of the price while a result moves too many nodes
MOST_PULLS = 4
FIRST = 3  # starts; if refinement around the changes cuts fewer edges than all of them, no other follows
STARTS = 0.5  # as many as a full run has, for half of its time
STARTS_OF_A_ROUND = 2  # so many starts for each round of combinations, at the second of the prices
NEAR = 1.01  # times the smallest cut: refinement around the changes, which moves few nodes, is enough
SEARCHES = 3  # on the smallest graph; the best of them goes on


def search_near_home(problem: Problem, previous: PreviousAssignment, starts: int) -> Parts | None:
    """Return a partition that cuts few edges, and moves at most a tenth of the old nodes, if balance permits.

    New nodes join their neighbours. Then clusters of any nodes, each in the partition of most of its nodes,
    move between partitions where that saves more edges than the price of the old nodes in them, and so do
    smaller clusters and single nodes. This is done several times, with clusters of several sizes and
    at several prices. A result in which too many nodes moved is pulled back at higher prices. The best
    results are combined while that helps, and the one that cuts the fewest edges is kept, unless refinement
    around the changes cuts nearly as few. The search ends early if that cuts fewer than the first results.

    Args:
        problem: The graph, and how to partition it.
        previous: The old partitions.
        starts: How many partitions a full run makes, before the best are combined; here it is half of that.

    Returns:
        (nodes,) int32, partition by homogeneous ID; None if balance cannot be restored.

    Peak memory: for each core 60 bytes a node, 100 bytes a half-edge, and 12 bytes for each node and
        partition.
    """
    return _NearHome(problem, previous).run(starts)


class _NearHome:
    """Searches around one old partition."""

    def __init__(self, problem: Problem, previous: PreviousAssignment) -> None:
        self.problem = problem
        self.previous = previous
        self.whole = Graph.of_input(problem.graph)
        self.limits = constraints_of(problem)
        alone = (np.diff(self.whole.offsets) == 0) & (previous.homes != NOWHERE)
        homes = previous.homes
        stay = self.limits._replace(
            classes=self.limits.classes[alone],
            in_degrees=self.limits.in_degrees[alone]
            if len(self.limits.in_degrees)
            else self.limits.in_degrees,
        ).loads(homes[alone])
        room = self.limits._replace(most=(self.limits.most - stay).clip(0))
        self.tries = Tries(problem.config, self.whole, room, 0, None, progress=problem.progress)
        self.homes = homes[self.tries.connected]
        self.old = self.homes != NOWHERE
        self.nodes = np.zeros((len(self.homes), problem.num_parts), np.int32)
        self.nodes[self.old, self.homes[self.old]] = 1

    def run(self, starts: int) -> Parts | None:
        placed = next(place_and_refine(self.problem, self.previous), None)
        if placed is None:
            placed = self.previous.homes.copy()
            place_new_nodes(self.whole, self.limits, placed)
        self.placed = placed[self.tries.connected]
        most = int(MOST_MOVED * np.count_nonzero(self.previous.homes != NOWHERE))
        self.most_moved = max(most, self._moved(self.placed))
        starts = max(FIRST, int(STARTS * starts))
        with ThreadPoolExecutor(cores()) as pool:
            works = [lambda: self.placed, *map(self._starter, range(starts))]
            found = self._do_all(pool, works[: 1 + FIRST])
            simple, chosen = found[0], different(found)[0]
            if chosen is not simple or simple.broken:  # otherwise the search does not pay
                found += self._do_all(pool, works[1 + FIRST :])
                chosen = self._combined(pool, found, starts // STARTS_OF_A_ROUND)
        if not simple.broken and simple.cut <= NEAR * chosen.cut:
            chosen = simple
        if chosen.broken:
            return None
        parts = np.where(np.diff(self.whole.offsets) == 0, self.previous.homes, NOWHERE).astype(np.int32)
        parts[self.tries.connected] = chosen.parts
        place_new_nodes(self.whole, self.limits, parts)
        return parts if (self.limits.loads(parts) <= self.limits.most).all() else None

    def _combined(self, pool: ThreadPoolExecutor, found: list[Candidate], rounds: int) -> Candidate:
        """Combine the best candidates until that helps no more, and return the best of all."""
        combined: set[frozenset[int]] = set()
        chosen = different(found)[0]
        for number in range(rounds):
            pairs, before = new_pairs(found, COMBINED, combined), chosen
            found += self._do_all(pool, [self._combiner(*pair, 1000 * number) for pair in pairs])
            chosen = different(found)[0]
            if chosen is before:
                break
        return chosen

    def _do_all(self, pool: ThreadPoolExecutor, works: Sequence[Callable[[], Labels]]) -> list[Candidate]:
        return [self._look_at(one) for one in self.tries.do_all(pool, works)]

    def _look_at(self, one: Candidate) -> Candidate:
        moved = self._moved(one.parts)
        return one._replace(broken=one.broken or moved > self.most_moved, order=moved)

    def _moved(self, parts: Labels) -> int:
        return int(np.count_nonzero((parts != self.homes) & self.old))

    def _starter(self, number: int) -> Callable[[], Labels]:
        """Return the work of one start."""
        clusters, price = CLUSTERS[number % len(CLUSTERS)], PRICES[number // len(CLUSTERS) % len(PRICES)]
        seed = self.problem.config.seed * 1009 + number
        slack = SLACK * (number % 2)  # every other start

        def work() -> Labels:
            parts = self._start(clusters, seed, self._homes_at(price), slack)
            return self._search(parts, parts, seed, price)

        return work

    def _combiner(self, better: Candidate, other: Candidate, rank: int, number: int) -> Callable[[], Labels]:
        """Return the work of combining two partitions."""
        seed = self.problem.config.seed * 1009 + number + rank
        return lambda: self._search(better.parts, overlay(better.parts, other.parts), seed, PRICES[1])

    def _search(self, parts: Labels, cells: Labels, seed: int, price: float) -> Labels:
        """Search by a cycle, and again at higher prices while too many nodes moved."""
        parts = self.tries.cycle(parts, cells, seed, self._homes_at(price))
        for _ in range(MOST_PULLS):
            if self._moved(parts) <= self.most_moved:
                break
            price *= DEARER
            parts = self.tries.cycle(parts, overlay(parts, self.placed), seed, self._homes_at(price))
        return parts

    def _homes_at(self, factor: float) -> Homes:
        return Homes(self.nodes, factor * self.problem.config.migration_price)

    def _start(self, clusters: int, seed: int, homes: Homes, slack: float) -> Labels:
        """Search on a graph of clusters, which need not keep to the old partitions, and on larger ones.

        Args:
            clusters: Number of clusters of the largest size that make a partition.
            seed: For clusters and searches.
            homes: The old partitions, and the price.
            slack: As in `regroup`: 0 for none.
        """
        levels, graph, constraints = self.tries.levels(clusters, seed)
        theirs, votes = [homes], Homes(np.zeros_like(self.nodes), 0)
        votes.nodes[np.arange(len(self.placed)), self.placed] = 1
        for _, _, numbers in levels:
            count = int(numbers.max()) + 1
            theirs.append(theirs[-1].contracted(numbers, count))
            votes = votes.contracted(numbers, count)
        parts = votes.nodes.argmax(axis=1).astype(np.int32)
        kinds = 2 if self.problem.config.balance == "edges" else 1
        constraints = loosen(constraints, kinds, slack if levels else 0)
        _refine_near(graph, constraints, parts, theirs[-1])
        tried: list[tuple[int, int, Labels]] = []
        for number in range(SEARCHES if levels else 1):
            one = parts.copy()
            saved = climb(graph, constraints, one, seed * SEARCHES + number, homes=theirs[-1])
            tried.append((-saved, number, one))
        parts = min(tried, key=lambda one: one[:2])[-1]
        for (graph, limits, numbers), ours in zip(reversed(levels), reversed(theirs[:-1]), strict=True):
            parts, slack = parts[numbers], slack * LESS_SLACK
            constraints = limits if graph is self.tries.graph else loosen(limits, kinds, slack)
            _refine_near(graph, constraints, parts, ours)
            climb(graph, constraints, parts, seed, homes=ours)
        return parts


def _refine_near(graph: Graph, constraints: Constraints, parts: Labels, homes: Homes) -> None:
    """Restore balance, and make moves that save more than they cost; a cluster has the home of most nodes."""
    known = homes.nodes.any(axis=1)
    most = np.where(known, homes.nodes.argmax(axis=1), NOWHERE).astype(np.int32)
    refine(graph, constraints, parts, homes=most, price=homes.price)
