"""Several partitions of one graph from different starts, improved, combined, and the best one kept.

Source: Sanders, Schulz, "Distributed evolutionary graph partitioning" (2012) for the combination: nodes that
two partitions separate are not contracted, so the result is no worse than the better one.
docs/decisions/search.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import combinations, pairwise
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError, kill_children
from partition_ops.stages.partition.multilevel.batches import one_thread
from partition_ops.stages.partition.multilevel.graph import (
    Constraints,
    Graph,
    Integers,
    Labels,
    constraints_of,
    cut_weight,
)
from partition_ops.stages.partition.multilevel.improve import climb, improve
from partition_ops.stages.partition.multilevel.kaminpar_process import running, start_with_kaminpar
from partition_ops.stages.partition.multilevel.levels import Level, contract_levels, cut_by_metis, of_clusters
from partition_ops.stages.partition.multilevel.search import Homes, fill_up
from partition_ops.stages.partition.multilevel.tuning import METIS_TOLERANCE, NEXT_SEED
from partition_ops.stages.partition.problem import Parts, Problem, shares
from partition_ops.system.parallel import cores


class Candidate(NamedTuple):
    """A partition of the graph; the least one is the best.

    Attributes:
        broken: Whether a partition exceeds a limit, or another condition does not hold.
        cut: Weight of the edges that it cuts.
        order: Decides between equal cuts, so that the order is the same in every run: the number of its try,
            or how many old nodes moved.
        parts: (nodes,) int32.
    """

    broken: bool
    cut: int
    order: int
    parts: Labels


def best_of(problem: Problem, starts: int, *, with_kaminpar: bool, thorough: bool) -> Parts:
    """Partition a graph several times, combine the best of these partitions, and return the best of all.

    Args:
        problem: The graph, and how to partition it.
        starts: How many partitions to make by METIS.
        with_kaminpar: Whether KaMinPar makes as many.
        thorough: Whether METIS looks for further partitions when partitions are combined.

    Returns:
        (nodes,) int32, the same on any number of cores.

    Raises:
        EngineError: METIS and KaMinPar failed in every try, or a process of theirs died.

    Peak memory: for each core 60 bytes a node, 100 bytes a half-edge, and 4 bytes for each node
        and partition.
    """
    tuning, seed = problem.tuning, problem.config.seed * 1009
    with Tries(problem) as tries:
        works = [partial(tries.start_with_metis, number) for number in range(starts)]
        if with_kaminpar:
            made = tries.pool.submit(tries.start_with_kaminpar, starts)
            works += [partial(tries.improve_one_of, made, number) for number in range(starts)]
        best = tries.combine(
            tries.do_all(works),
            min(max(starts // tuning.starts_of_a_round, 1), tuning.most_rounds),
            lambda better, cells, rank: tries.cycle(better, cells, seed + rank, metis=thorough),
        )
    light = np.floor(tuning.light * shares(problem.config) * tries.whole.num_nodes).astype(np.int64)
    return fill_up(tries.whole, tries.limits, tries.with_isolated(best.parts), light, tuning.filling)


class Tries:
    """Partitions of one graph, made in the threads of a pool, all of them kept in memory.

    Args:
        problem: The graph, and how to partition it. Nodes without neighbours are left out.
        limits: Constraints on its nodes; those of the problem if omitted.

    Attributes:
        whole: The whole graph.
        limits: Constraints on its nodes.
        count: Number of partitions.
        pool: A thread for each core, in a ``with`` block; an error there kills the processes of libraries.
    """

    def __init__(self, problem: Problem, limits: Constraints | None = None) -> None:
        self.problem = problem
        self.tuning = problem.tuning
        self.whole = Graph.of_input(problem.graph, problem.edge_weights)
        self.limits = constraints_of(problem) if limits is None else limits
        self.count = problem.num_parts

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(cores())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            kill_children()
            for process in [*running]:
                process.kill()
        self.pool.shutdown(cancel_futures=True)

    @cached_property
    def connected(self) -> Integers:
        """(connected nodes,) int64, the nodes that have neighbours."""
        return np.flatnonzero(np.diff(self.whole.offsets))

    @cached_property
    def level(self) -> Level:
        """The graph of the nodes that have neighbours."""
        if len(self.connected) == self.whole.num_nodes:
            return Level(self.whole, self.limits)
        numbers = np.cumsum(np.diff(self.whole.offsets) > 0, dtype=np.int32) - 1
        offsets = np.concatenate([np.zeros(1, np.int64), self.whole.offsets[1:][self.connected]])
        graph = self.whole._replace(offsets=offsets, neighbours=numbers[self.whole.neighbours])
        return Level(graph, self.limits.subset(self.connected))

    def with_isolated(self, parts: Labels) -> Parts:
        """Return the partitions of all nodes; those without neighbours go where there is most room."""
        found = np.full(self.whole.num_nodes, -1, np.int32)
        found[self.connected] = parts
        room = self.limits.most - self.level.constraints.loads(parts)
        wanted = shares(self.problem.config)
        for column in np.unique(self.limits.classes[found < 0]):
            nodes = np.flatnonzero((found < 0) & (self.limits.classes == column))
            total = np.count_nonzero(self.limits.classes == column)
            excess = self.limits.most[:, column] - wanted * total  # keeps all partitions as even as possible
            found[nodes] = _deal(room[:, column], excess, len(nodes))
        return found

    def do_all(self, works: Sequence[Callable[[], Labels]]) -> list[Candidate]:
        """Do the works, and return the candidates without those whose library failed.

        Raises:
            EngineError: the library failed in all of them, or its process died in one of them.
        """
        found: list[Candidate] = []
        failed: EngineError | None = None
        title = "Looking for a smaller edge cut"
        with self.problem.progress.step(title, len(works), "partitionings") as advance:
            for number, job in enumerate([self.pool.submit(_alone, work) for work in works]):
                try:
                    found.append(self.judge(number, job.result()))
                except LibraryDiedError:  # without it, the result would be another one
                    raise
                except EngineError as error:
                    failed = error
                finally:
                    advance(1)
        if failed is not None and not found:
            raise failed
        return found

    def judge(self, number: int, parts: Labels) -> Candidate:
        """Return a partition with what decides whether it is the best; ``number`` counts its works."""
        graph, constraints = self.level[:2]
        return Candidate(not constraints.kept_by(parts), cut_weight(graph, parts), number, parts)

    def combine(
        self,
        found: list[Candidate],
        rounds: int,
        search: Callable[[Labels, Labels, int], Labels],
        *,
        while_better: bool = False,
    ) -> Candidate:
        """Combine every two of the best candidates, in rounds, and return the best of all.

        Args:
            found: Candidates; the new ones are added.
            rounds: Most rounds; none follows if the best are combined already.
            search: Takes the better partition, the cells in which both put the same nodes together, and a
                number for its seed; returns a partition.
            while_better: Whether a round that finds nothing better is the last one.
        """
        combined: set[frozenset[int]] = set()
        best = ranked(found)[0]
        for number in range(rounds):
            works = []
            for (rank, better), (lower, other) in combinations(
                enumerate(ranked(found)[: self.tuning.combined]), 2
            ):
                pair = frozenset((id(better.parts), id(other.parts)))
                if pair not in combined:
                    combined.add(pair)
                    seed = 1000 * number + 100 * rank + lower
                    works.append(partial(_combine, search, better.parts, other.parts, seed))
            if not works:
                break
            found += self.do_all(works)
            before, best = best, ranked(found)[0]
            if while_better and best is before:
                break
        return best

    def start_with_metis(self, number: int) -> Labels:
        """Partition by METIS, over clusters of some size or the whole graph, and improve on every level."""
        clusters = self.tuning.to_metis.clusters
        seed = self.problem.config.seed * 1009 + number
        levels = self.contracted(clusters[number % len(clusters)], seed)
        seeds = [seed + NEXT_SEED * place for place in range(self.tuning.coarse_seeds if levels[1:] else 1)]
        parts = min((self._metis(levels[-1], one) for one in seeds), key=lambda one: one[:2])[2]
        for graph, constraints, _, labels in reversed(levels[:-1]):
            parts = parts[labels]
            improve(graph, constraints, parts, seed, tuning=self.tuning)
        return self.cycle(parts, parts, seed)

    def start_with_kaminpar(self, starts: int) -> list[Labels]:
        """Return partitions of KaMinPar from several seeds; it balances all nodes together."""
        problem = self.problem
        tolerance = problem.config.tolerance or METIS_TOLERANCE
        seeds = [(problem.config.seed * 1009 + number) % 2**31 for number in range(starts)]
        found = start_with_kaminpar(problem.graph_file, self.count, tolerance, seeds, problem.edge_weights)
        return [parts[self.connected] for parts in found]

    def improve_one_of(self, made: Future[list[Labels]], number: int) -> Labels:
        """Bring a partition of KaMinPar within the constraints, and improve it."""
        parts = made.result()[number]
        graph, constraints = self.level[:2]
        seed = self.problem.config.seed * 1009 + number
        improve(graph, constraints, parts, seed, climbs=False, tuning=self.tuning)
        return self.cycle(parts, parts, seed)

    def contracted(self, clusters: int, seed: int) -> list[Level]:
        """Return graphs of clusters, of which so many of the largest size make a partition; 0 for none."""
        most = max(2, self.level.graph.num_nodes // (max(clusters, 1) * self.count))
        return contract_levels(self.level, self.tuning.to_metis, lambda *_: most if clusters else 0, seed)

    def _metis(self, level: Level, seed: int) -> tuple[bool, int, Labels]:
        """Return whether a limit is exceeded, the cut, and the partitions, improved."""
        graph, constraints = level[:2]
        parts = cut_by_metis(self.problem.config, level, seed, by_limits=True)
        kept = improve(graph, constraints, parts, seed, tuning=self.tuning).kept
        return not kept, cut_weight(graph, parts), parts

    def cycle(
        self, parts: Labels, cells: Labels, seed: int, homes: Homes | None = None, *, metis: bool = False
    ) -> Labels:
        """Contract clusters of nodes of the same cell, and search on every level, the smallest first.

        Args:
            parts: (nodes,) int32, the partitions to begin with.
            cells: (nodes,) int32; nodes of the same cell are in the same partition.
            seed: For clusters and searches.
            homes: Partitions that nodes should rather stay in; None if nodes move freely.
            metis: Whether METIS also partitions the smallest graph, and the best of all goes on.
        """
        how = self.tuning.combination if metis else self.tuning.cycle
        largest = max(2, self.level.graph.num_nodes // (how.clusters[0] * self.count))
        levels = contract_levels(
            self.level._replace(cells=cells),
            how,
            lambda _, number: min(largest, self.tuning.growth ** (number + 1)),
            seed * 17,
        )
        theirs = [homes]
        for level, smaller in pairwise(levels):
            parts = of_clusters(parts, level.labels, smaller.graph.num_nodes)
            theirs.append(homes and homes.contracted(level.labels, smaller.graph.num_nodes))
            homes = theirs[-1]
        parts = parts.copy()
        climb(*levels[-1][:2], parts, seed, homes=homes, tuning=self.tuning)
        if metis:
            parts = self._best_of(levels[-1], parts, seed)
        for level, homes in zip(reversed(levels[:-1]), reversed(theirs[:-1]), strict=True):
            parts = parts[level.labels]
            climb(*level[:2], parts, seed, homes=homes, tuning=self.tuning)
        return parts

    def _best_of(self, level: Level, parts: Labels, seed: int) -> Labels:
        """Return the best of some partitions and of those that METIS makes of the same graph."""
        tried = [(not level.constraints.kept_by(parts), cut_weight(level.graph, parts), parts)]
        for number in range(self.tuning.combined_seeds):
            try:
                tried.append(self._metis(level, seed + NEXT_SEED * number))
            except LibraryDiedError:
                raise
            except EngineError:
                break  # the partitions that are there are enough
        return min(tried, key=lambda one: one[:2])[2]


def ranked(found: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate of each cut, the best first."""
    by_cut: dict[tuple[bool, int], Candidate] = {}
    for one in sorted(found, key=lambda one: one[:3]):
        by_cut.setdefault(one[:2], one)
    return [*by_cut.values()]


def overlay(one: Labels, other: Labels) -> Labels:
    """Return (nodes,) int32, equal for nodes that both partitions put together."""
    count = int(other.max(initial=0)) + 1
    cells: Labels = np.unique(one.astype(np.int64) * count + other, return_inverse=True)[1].astype(np.int32)
    return cells


def _combine(
    search: Callable[[Labels, Labels, int], Labels], better: Labels, other: Labels, seed: int
) -> Labels:
    return search(better, overlay(better, other), seed)


def _alone(work: Callable[[], Labels]) -> Labels:
    with one_thread():
        return work()


def _deal(room: Integers, excess: npt.NDArray[np.float64], count: int) -> Labels:
    """Return (count,) int32: partitions for nodes, always the one with most room over its share.

    Args:
        room: (parts,) nodes that each partition can still take.
        excess: (parts,) nodes that each partition may hold over its share.
        count: Number of nodes.
    """
    free = room.clip(0)
    owners = np.repeat(np.arange(len(room), dtype=np.int32), free)
    ends = np.repeat(np.cumsum(free) - free, free)
    left = np.repeat(room - excess, free) - (np.arange(len(owners)) - ends)  # to the share
    return owners[np.argsort(-left, kind="stable")[:count]]
