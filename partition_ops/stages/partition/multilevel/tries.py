"""Several partitions of one graph from different starts, improved, combined, and the best one kept.

Source: Sanders, Schulz, "Distributed evolutionary graph partitioning" (2012) for the combination: nodes that
two partitions separate are not contracted, so the result is no worse than the better one.
docs/decisions/search.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import combinations, pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError, kill_children
from partition_ops.stages.partition.multilevel.batches import one_thread
from partition_ops.stages.partition.multilevel.descend import cost_of, descend
from partition_ops.stages.partition.multilevel.graph import (
    NOTHING,
    Constraints,
    Graph,
    Integers,
    Labels,
    constraints_of,
    cut_weight,
    largest_degree,
    without_light_edges,
)
from partition_ops.stages.partition.multilevel.improve import climb, improve
from partition_ops.stages.partition.multilevel.kahypar import cut_by_kahypar, running
from partition_ops.stages.partition.multilevel.levels import (
    Level,
    contract_levels,
    cut_by_metis,
    of_clusters,
)
from partition_ops.stages.partition.multilevel.refine import restore_balance
from partition_ops.stages.partition.multilevel.search import Homes, fill_up
from partition_ops.stages.partition.multilevel.tuning import NEXT_SEED, REFINED, ROUNDING, Tuning
from partition_ops.stages.partition.problem import Parts, Problem, shares
from partition_ops.system.memory import drop_pages
from partition_ops.system.parallel import cores

UNITS = 1000


class Candidate(NamedTuple):
    """A partition of the graph; the least one is the best."""

    broken: bool  # whether a partition exceeds a limit, or another condition does not hold
    cut: int  # weight of the edges that it cuts, or its expected traffic in `UNITS` a row
    order: int  # decides between equal cuts: the number of its try, or how many old nodes moved
    parts: Labels  # (nodes,) int32


class Tries:
    """Partitions of one graph, made in the threads of a pool, all of them kept in memory.

    Attributes:
        whole: The whole graph.
        limits: Constraints on its nodes; those of the problem by default.
        count: Number of partitions.
        chosen: How the last start made its partition.
        alone: Whether there is one partition only.
    """

    def __init__(
        self,
        problem: Problem,
        limits: Constraints | None = None,
        *,
        nearly_even: bool = False,
        first: Tuning | None = None,
    ) -> None:
        """Prepare to partition a graph.

        Args:
            problem: The graph, and how to partition it.
            limits: Other constraints than those of the problem.
            nearly_even: Whether every start keeps to `nearly_even_limits`.
            first: Constants of the first start; those of the problem by default.
        """
        self.problem = problem
        self.tuning = problem.tuning
        self._first = first or problem.tuning
        self.seed = problem.config.seed * 1009
        self.whole = Graph.of_input(problem.graph, problem.edge_weights)
        self.limits = constraints_of(problem) if limits is None else limits
        self.count = problem.num_parts
        self.chosen = ""
        self.alone = False
        self._nearly_even = nearly_even

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(cores())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            kill_children()
            for process in [*running]:
                process.kill()
        self.pool.shutdown(cancel_futures=True)

    @cached_property
    def connected(self) -> Integers | slice:
        """Index of the nodes that are partitioned: all, or (connected nodes,) int64, those with neighbours.

        If few have none, a graph without them is not worth its copy of all half-edges.
        """
        alone = self.whole.offsets[1:] == self.whole.offsets[:-1]
        classes = np.bincount(self.limits.classes)
        isolated = np.bincount(self.limits.classes[alone], minlength=len(classes))
        few = (isolated <= self.tuning.isolated * classes).all()
        return slice(None) if few else np.flatnonzero(~alone)

    @cached_property
    def level(self) -> Level:
        """The graph of `connected`."""
        limits = self.nearly_even_limits if self._nearly_even else self.limits
        if isinstance(self.connected, slice):
            return Level(self.whole, limits)
        numbers = np.cumsum(np.diff(self.whole.offsets) > 0, dtype=np.int32) - 1
        offsets = np.concatenate([np.zeros(1, np.int64), self.whole.offsets[1:][self.connected]])
        graph = self.whole._replace(offsets=offsets, neighbours=numbers[self.whole.neighbours])
        return Level(graph, limits.subset(self.connected))

    @cached_property
    def even_limits(self) -> Constraints:
        """The limits, with as many train nodes in each partition as its share, rounded up.

        ``dgl.distributed.node_split`` gives every trainer as many seeds, in the order of their IDs: with 3 %
        more train nodes in a partition, the trainers after it get seeds of the one before, whose neighbours
        are remote. On a graph of 8,000 nodes, the slowest trainer fetched ten times as many rows.
        """
        if self.problem.traffic is None:
            return self.limits
        classes, most = self.limits.classes, self.limits.most.copy()
        count = most.shape[1]
        nodes = np.bincount(classes, minlength=count)
        trained = np.bincount(classes[self.problem.traffic.train], minlength=count)
        for column in np.flatnonzero((trained == nodes) & (nodes > 0)):
            most[:, column] = np.ceil(shares(self.problem.config) * nodes[column] - ROUNDING)
        return self.limits._replace(most=np.minimum(most, self.limits.most))

    @cached_property
    def nearly_even_limits(self) -> Constraints:
        """The limits, with nearly as few train nodes as in `even_limits`, so that few move in the end.

        In graphs with 1.9 to 15 million edges and 4 to 16 partitions, the cut is 1 to 2 % smaller, and the
        slowest trainer reads 2 to 5 % fewer rows. In small graphs, whose moves the model of the traffic
        judges, there is less room for these: on 28 graphs with a fifth of a type trained, it reads 1 % more.
        """
        even, most = self.even_limits.most, self.limits.most
        nearly = np.floor(even * (1 + self.tuning.nearly_even)).astype(np.int64)
        return self.limits._replace(most=np.where(even < most, np.minimum(nearly, most), most))

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

    def finished(self, parts: Labels, evaluations: int = 0) -> Parts:
        """Return the partitions of all nodes, fill up light ones, and lower the traffic by a model."""
        found, tuning, graph = self.with_isolated(parts), self.tuning, self.whole
        if self.problem.traffic is not None and not self.problem.uneven:  # as without further starts
            graph = graph._replace(edge_weights=NOTHING)
        large = self.whole.num_nodes * self.count > tuning.most_sums
        limits = self.even_limits
        if limits is not self.limits:
            restore_balance(graph, limits, found, tuning=tuning)
        if self.problem.traffic is not None and evaluations and not large:
            how = tuning.descent
            room = limits._replace(most=np.minimum(limits.most + 1, self.limits.most))  # to change places
            found = descend(self.problem.traffic, graph, room, found, how, evaluations)
            if limits is not self.limits:
                restore_balance(graph, limits, found, tuning=tuning)
        if large:
            return found
        light = np.floor(tuning.light * shares(self.problem.config) * self.whole.num_nodes).astype(np.int64)
        return fill_up(graph, limits, found, light, tuning.filling)

    def do_all(self, works: Sequence[Callable[[], Labels]]) -> list[Candidate]:
        """Do the works, and return the candidates without those whose library failed.

        Raises:
            EngineError: the library failed in all of them, or its process died in one of them.
        """
        found: list[Candidate] = []
        failed: EngineError | None = None
        title = "Looking for a smaller edge cut"
        alone = len(works) == 1  # then all threads work on it
        with self.problem.progress.step(title, len(works), "partitionings") as advance:
            jobs = [self.pool.submit(work if alone else partial(_alone, work)) for work in works]
            for number, job in enumerate(jobs):
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
        """Return a partition with what decides whether it is the best; ``number`` counts its works.

        Nothing decides if it is the only one: an evaluation of the model of the traffic is not for nothing.
        """
        if self.alone:
            return Candidate(False, 0, number, parts)
        broken = not self.level.constraints.kept_by(parts)
        if self.problem.traffic is None:
            return Candidate(broken, cut_weight(self.level.graph, parts), number, parts)
        everywhere = np.arange(self.whole.num_nodes, dtype=np.int32) % self.count  # nothing reads the others
        everywhere[self.connected] = parts
        return Candidate(broken, self.cost(everywhere), number, parts)

    def cost(self, parts: Parts) -> int:
        """Return what decides between partitions of all nodes: their cut, or their expected traffic."""
        if self.problem.traffic is None:
            return cut_weight(self.whole, parts)
        return int(UNITS * cost_of(self.problem.traffic.about_remote_rows(parts, self.count)))

    def combine(self, found: list[Candidate], rounds: int, most: int) -> Candidate:
        """Combine every two of the ``most`` best candidates, in rounds, and return the best of all.

        The new candidates are added to ``found``. A round that finds nothing better is the last one.
        """
        combined: set[frozenset[int]] = set()
        best = ranked(found)[0]
        for number in range(rounds):
            works = []
            for (rank, better), (lower, other) in combinations(enumerate(ranked(found)[:most]), 2):
                pair = frozenset((id(better.parts), id(other.parts)))
                if pair not in combined:
                    combined.add(pair)
                    seed = self.seed + 1000 * number + 100 * rank + lower
                    works.append(partial(self.combined, better.parts, other.parts, seed))
            if not works:
                break
            found += self.do_all(works)
            before, best = best, ranked(found)[0]
            if best is before:
                break
        return best

    def combined(self, better: Labels, other: Labels, seed: int) -> Labels:
        """Search from the better of two partitions, without separating what both put together."""
        return self.cycle(better, overlay(better, other), seed, metis=self.tuning.thorough)

    def has_clusters(self) -> bool:
        """Return whether the graph has hubs or communities, so that it should be contracted."""
        graph, tuning = self.level.graph, self.tuning
        if largest_degree(graph.offsets) * graph.num_nodes >= tuning.skewed * graph.num_half_edges:
            return True
        first = self.contracted(tuning.starts[0], self.seed)
        return len(first) == 1 or first[1].graph.num_nodes <= tuning.clustered * graph.num_nodes

    def start(self, number: int, clusters: int, *, weighted: bool = True, preset: str = "DEFAULT") -> Labels:
        """Partition a graph of clusters or the whole graph, and improve that on every level.

        Mt-KaHyPar, if it can, partitions the graph of clusters of the first start, and the whole graph; METIS
        does it otherwise.

        Args:
            number: Number of the start, for its seed.
            clusters: So many of the largest size make a partition; 0 for none.
            weighted: Whether edges have the weights of the problem.
            preset: Of Mt-KaHyPar.
        """
        seed = self.seed + number
        levels = self.contracted(clusters, seed, weighted=weighted)
        names = ("two-level", "two-level with Mt-KaHyPar") if levels[1:] else ("metis", "Mt-KaHyPar")
        if levels[1:]:
            drop_pages(self.problem.graph.neighbours)  # read again when the whole graph is improved
        parts = self._kahypar(levels[-1], seed, preset) if number == 0 or not levels[1:] else None
        self.chosen = names[parts is not None]
        parts = self._metis(levels[-1], seed) if parts is None else parts
        for level in reversed(levels):
            parts = parts[level.labels] if level is not levels[-1] else parts
            improve(*level[:2], parts, seed, tuning=self.tuning if number else self._first)
        return self.cycle(parts, parts, seed) if self.tuning.thorough else parts

    def contracted(
        self, clusters: int, seed: int, *, weighted: bool = True, homes: Homes | None = None
    ) -> list[Level]:
        """Return graphs of clusters, of which so many of the largest size make a partition; 0 for none."""
        level = self.level._replace(homes=homes)
        most = max(2, level.graph.num_nodes // (max(clusters, 1) * self.count))
        if not weighted:
            level = level._replace(graph=level.graph._replace(edge_weights=NOTHING))
        many = self.count > self.tuning.many_parts
        how = self.tuning.to_metis_of_many if many else self.tuning.to_metis
        return contract_levels(level, how, lambda *_: most if clusters else 0, seed)

    def _metis(self, level: Level, seed: int) -> Labels:
        spare = self.problem.limits_in_edges
        level = level._replace(graph=without_light_edges(level.graph, self.count, self.tuning))
        return cut_by_metis(
            self.problem.config,
            level,
            seed,
            by_limits=True,
            spare=spare,
            most_over=REFINED,
            tuning=self.tuning,
        )

    def _kahypar(self, level: Level, seed: int, preset: str) -> Labels | None:
        """Return a partition by Mt-KaHyPar, or None.

        That is if there are several strict constraints, if Mt-KaHyPar fails, or if a partition has too many
        in-edges, which METIS can limit too.
        """
        constraints, large = level.constraints, self.tuning.most_work_of_kahypar
        strict = constraints.most.shape[1] - self.problem.limits_in_edges
        if strict > 1 or self.count > self.tuning.most_of_kahypar or level.graph.num_half_edges > large:
            return None
        try:
            parts = cut_by_kahypar(level, seed, preset)
        except LibraryDiedError:
            raise
        except EngineError:
            return None
        return None if (constraints.loads(parts)[:, 1:] > constraints.most[:, 1:]).any() else parts

    def cycle(
        self, parts: Labels, cells: Labels, seed: int, homes: Homes | None = None, *, metis: bool = False
    ) -> Labels:
        """Contract clusters of nodes of the same cell, and search on every level, the smallest first.

        Nodes of the same of the (nodes,) ``cells`` are in the same partition to begin with. With ``metis``,
        METIS also partitions the smallest graph, and the best of all goes on.
        """
        how = self.tuning.combination if metis else self.tuning.cycle
        largest = max(2, self.level.graph.num_nodes // (how.clusters[0] * self.count))
        level = self.level._replace(cells=cells, homes=homes)
        levels = contract_levels(
            level, how, lambda _, number: min(largest, self.tuning.growth ** (number + 1)), seed * 17
        )
        for level, smaller in pairwise(levels):
            parts = of_clusters(parts, level.labels, smaller.graph.num_nodes)
        parts = parts.copy()
        for level in reversed(levels):
            parts = parts[level.labels] if level is not levels[-1] else parts
            climb(*level[:2], parts, seed, homes=level.homes, tuning=self.tuning)
            if metis and level is levels[-1]:
                parts = self._best_of(level, parts, seed)
        return parts

    def _best_of(self, level: Level, parts: Labels, seed: int) -> Labels:
        """Return the best of some partitions and of those that METIS makes of the same graph."""
        tried = [parts]
        for number in range(self.tuning.combined_seeds):
            try:
                tried.append(self._metis(level, seed + NEXT_SEED * number))
            except LibraryDiedError:
                raise
            except EngineError:
                break  # the partitions that are there are enough
            improve(*level[:2], tried[-1], seed + NEXT_SEED * number, tuning=self.tuning)
        return min(tried, key=lambda one: (not level.constraints.kept_by(one), cut_weight(level.graph, one)))


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


def _alone(work: Callable[[], Labels]) -> Labels:
    with one_thread():
        return work()


def _deal(room: Integers, excess: npt.NDArray[np.float64], count: int) -> Labels:
    """Return (count,) int32: partitions for nodes, always the one with most room over its share.

    ``room`` says how many nodes each partition can still take, ``excess`` how many over its share it may.
    """
    free = room.clip(0)
    owners = np.repeat(np.arange(len(room), dtype=np.int32), free)
    ends = np.repeat(np.cumsum(free) - free, free)
    left = np.repeat(room - excess, free) - (np.arange(len(owners)) - ends)  # to the share
    return owners[np.argsort(-left, kind="stable")[:count]]
