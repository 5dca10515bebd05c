"""Several partitions of one graph from different starts, improved, combined, and the best one kept.

Source: Sanders, Schulz, "Distributed evolutionary graph partitioning" (2012) for the combination: nodes that
two partitions separate are not contracted, so the result is no worse than the better one.
docs/decisions/search.md has the reasons, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError, cut_graph, kill_children
from partition_ops.stages.partition.multilevel.batches import one_thread
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.fm import climb, fill_up
from partition_ops.stages.partition.multilevel.graph import Constraints, Graph, Integers, Labels, edge_cut
from partition_ops.stages.partition.multilevel.kaminpar_process import running, start_with_kaminpar
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.sums import Homes
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import METIS_TOLERANCE, Parts, shares
from partition_ops.system.parallel import cores
from partition_ops.system.progress import NoProgress, Progress

WHOLE = 0  # a start without clusters
CLUSTERS = (WHOLE, 64, 32, 128, 16, 256)  # of the largest size make a partition; the starts take turns
FEW_NODES = 200  # for each partition; a graph with fewer is not contracted for METIS
FEWEST_NODES = 30  # the same for a cycle
FEWEST_COMBINED = 60  # the same when partitions are combined
MOST_LEVELS = 3  # of clusters of one size
NEXT_SEED = 7919  # METIS draws the same random numbers for the seeds 0 and 1
COARSE_SEEDS = 2  # METIS partitions a graph of clusters so often
GROWTH = 8  # factor between the sizes of the clusters of two levels of a cycle
LEAST_SHRINKING = 0.95  # with more clusters than this share of the nodes, a level is not worthwhile
COMBINED = 4  # that many of the best partitions are combined, each with every other
COMBINED_SEEDS = 4  # METIS partitions the smallest graph of a combination so often
MOST_ROUNDS = 4  # of combinations; none follows if the best partitions are combined already
STARTS_OF_A_ROUND = 3  # so many starts for each round, so that combinations take no longer than the starts
LIGHT = 0.9  # of its share; lighter partitions are filled up
FILLING = 0.02  # share of the cut that this may cost


Level = tuple[Graph, Constraints, Labels]  # with the node of the next smaller graph for each node


class Candidate(NamedTuple):
    """A partition of the graph; the least one is the best.

    Attributes:
        broken: Whether a partition exceeds a limit, or another condition does not hold.
        cut: Edges that it cuts.
        order: Decides between equal cuts, so that the order is the same in every run: the number of its try,
            or how many old nodes moved.
        parts: (nodes,) int32.
    """

    broken: bool
    cut: int
    order: int
    parts: Labels


class Tries:
    """Partitions one graph several times, on all cores.

    Args:
        config: Partitions, their shares, tolerance, seed.
        graph: The graph; nodes without neighbours are placed last, where there is room.
        constraints: Constraints on its nodes.
        starts: How many partitions to make by METIS, and as many by KaMinPar.
        file: The graph's ParHIP file, for KaMinPar; None to do without.
        thorough: Whether METIS looks for further partitions when partitions are combined.
        progress: Shows how many partitions have been made.

    Peak memory: for each core 60 bytes a node, 100 bytes a half-edge, and 4 bytes for each node
        and partition.
    """

    def __init__(
        self,
        config: PartitionConfig,
        graph: Graph,
        constraints: Constraints,
        starts: int,
        file: Path | None,
        *,
        thorough: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self.config = config
        self.whole = graph
        self.limits = constraints
        self.starts = starts
        self.file = file
        self.thorough = thorough
        self.progress = progress or NoProgress()
        self.count = len(constraints.most)
        self.combined: set[frozenset[int]] = set()  # pairs of the arrays of candidates

    def run(self) -> Parts:
        """Return (nodes,) int32, the same on any number of cores.

        Raises:
            EngineError: METIS and KaMinPar failed in every try, or a process of theirs died.
        """
        pool = ThreadPoolExecutor(cores())
        try:
            found = self._start_all(pool)
            for number in range(min(max(self.starts // STARTS_OF_A_ROUND, 1), MOST_ROUNDS)):
                works = self._combiners(found, number)
                if not works:
                    break
                found += self.do_all(pool, works)
        except BaseException:
            kill_children()
            for process in [*running]:
                process.kill()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        best_parts = different(found)[0].parts
        light = np.floor(LIGHT * shares(self.config) * self.whole.num_nodes).astype(np.int64)
        parts = self._with_isolated(best_parts)
        return fill_up(self.whole, self.limits, parts, light, FILLING)

    def _start_all(self, pool: ThreadPoolExecutor) -> list[Candidate]:
        works = [self._starter(number) for number in range(self.starts)]
        if self.file is not None:
            parts = pool.submit(self._kaminpar, self.file)
            works += [self._improver(parts, number) for number in range(self.starts)]
        return self.do_all(pool, works)

    def do_all(self, pool: ThreadPoolExecutor, works: Sequence[Callable[[], Labels]]) -> list[Candidate]:
        """Do the works, and return the candidates without those whose library failed.

        Raises:
            EngineError: the library failed in all of them, or its process died in one of them.
        """
        found, error = [], None
        with self.progress.step("Looking for a smaller edge cut", len(works), "partitionings") as advance:
            for number, job in enumerate([pool.submit(self._alone, work) for work in works]):
                try:
                    parts = job.result()
                except LibraryDiedError:  # without it, the result would be another one
                    raise
                except EngineError as failed:
                    error = failed
                    continue
                finally:
                    advance(1)
                broken = bool((self.constraints.loads(parts) > self.constraints.most).any())
                found.append(Candidate(broken, edge_cut(self.graph, parts).pairs, number, parts))
        if error is not None and not found:
            raise error
        return found

    @staticmethod
    def _alone(work: Callable[[], Labels]) -> Labels:
        with one_thread():
            return work()

    @cached_property
    def connected(self) -> Integers:
        """(connected nodes,) int64, the nodes that have neighbours."""
        return np.flatnonzero(np.diff(self.whole.offsets))

    @cached_property
    def graph(self) -> Graph:
        """The graph of the nodes that have neighbours."""
        if len(self.connected) == self.whole.num_nodes:
            return self.whole
        numbers = np.cumsum(np.diff(self.whole.offsets) > 0, dtype=np.int32) - 1
        offsets = np.concatenate([np.zeros(1, np.int64), self.whole.offsets[1:][self.connected]])
        return self.whole._replace(offsets=offsets, neighbours=numbers[self.whole.neighbours])

    @cached_property
    def constraints(self) -> Constraints:
        degrees = self.limits.in_degrees
        return self.limits._replace(
            classes=self.limits.classes[self.connected],
            in_degrees=degrees[self.connected] if len(degrees) else degrees,
        )

    def _with_isolated(self, parts: Labels) -> Parts:
        """Return the partitions of all nodes; those without neighbours go where there is most room."""
        found = np.full(self.whole.num_nodes, -1, np.int32)
        found[self.connected] = parts
        room = self.limits.most - self.constraints.loads(parts)
        wanted = shares(self.config)
        for column in np.unique(self.limits.classes[found < 0]):
            nodes = np.flatnonzero((found < 0) & (self.limits.classes == column))
            total = np.count_nonzero(self.limits.classes == column)
            excess = self.limits.most[:, column] - wanted * total  # keeps all partitions as even as possible
            found[nodes] = _deal(room[:, column], excess, len(nodes))
        return found

    def _starter(self, number: int) -> Callable[[], Labels]:
        """Return the work of one start."""
        clusters, seed = CLUSTERS[number % len(CLUSTERS)], self.config.seed * 1009 + number

        def work() -> Labels:
            parts = self._start(clusters, seed)
            return self.cycle(parts, parts, seed)

        return work

    def _combiners(self, found: list[Candidate], number: int) -> list[Callable[[], Labels]]:
        """Return the works of a round: combine every pair of the best that is not combined yet."""
        seed = self.config.seed * 1009 + 1000 * number
        return [
            partial(self._combine, better.parts, other.parts, seed + rank)
            for better, other, rank in new_pairs(found, COMBINED, self.combined)
        ]

    def _combine(self, better: Labels, other: Labels, seed: int) -> Labels:
        return self.cycle(better, overlay(better, other), seed, metis=self.thorough)

    def _kaminpar(self, file: Path) -> list[Labels]:
        """Return partitions of KaMinPar from several seeds; it balances all nodes together."""
        tolerance = self.config.tolerance or METIS_TOLERANCE
        seeds = [(self.config.seed * 1009 + number) % 2**31 for number in range(self.starts)]
        found = start_with_kaminpar(file, self.count, tolerance, seeds)
        return [parts[self.connected] for parts in found]

    def _improver(self, found: Future[list[Labels]], number: int) -> Callable[[], Labels]:
        """Return the work of bringing a partition of KaMinPar within the constraints, and refining it."""

        def work() -> Labels:
            parts = found.result()[number]
            refine(self.graph, self.constraints, parts)
            return self.cycle(parts, parts, self.config.seed * 1009 + number)

        return work

    def _start(self, clusters: int, seed: int) -> Labels:
        """Partition by METIS, over clusters of some size or the whole graph, and refine on every level."""
        levels, graph, constraints = self.levels(clusters, seed)
        seeds = [seed + NEXT_SEED * number for number in range(COARSE_SEEDS if levels else 1)]
        parts = min((self._metis(graph, constraints, one) for one in seeds), key=lambda one: one[:2])[2]
        for graph, constraints, numbers in reversed(levels):
            parts = parts[numbers]
            refine(graph, constraints, parts)
            climb(graph, constraints, parts, seed)
        return parts

    def levels(self, clusters: int, seed: int) -> tuple[list[Level], Graph, Constraints]:
        """Return the graph and smaller ones of its clusters, but the smallest; then the smallest."""
        levels: list[Level] = []
        graph, constraints = self.graph, self.constraints
        most = max(2, graph.num_nodes // (max(clusters, 1) * self.count))
        while clusters and len(levels) < MOST_LEVELS and graph.num_nodes > FEW_NODES * self.count:
            labels = find_clusters(graph, most, seed + len(levels))
            smaller, numbers = contract(graph, labels)
            if smaller.num_nodes > LEAST_SHRINKING * graph.num_nodes:
                break
            levels.append((graph, constraints, numbers))
            graph, constraints = smaller, constraints.contracted(numbers, smaller.num_nodes)
        return levels, graph, constraints

    def _metis(self, graph: Graph, constraints: Constraints, seed: int) -> tuple[bool, int, Labels]:
        """Return whether a limit is exceeded, the cut, and the partitions, refined."""
        weights = constraints.weights
        if not len(weights):
            half = constraints.num_columns // (2 if len(constraints.in_degrees) else 1)
            weights = np.zeros((graph.num_nodes, constraints.num_columns), np.int64)
            weights[np.arange(graph.num_nodes), constraints.classes] = 1
            if len(constraints.in_degrees):
                weights[np.arange(graph.num_nodes), half + constraints.classes] = constraints.in_degrees
        sums = weights.sum(axis=0)
        used = np.flatnonzero(sums)  # METIS divides by them
        ideal = shares(self.config)[:, None] * sums[used]
        allowed = np.maximum((constraints.most[:, used] / ideal).min(axis=0), 1.001)
        parts = cut_graph(
            replace(self.config, seed=seed % 2**31),
            ParhipGraph(graph.offsets, graph.neighbours),
            np.ascontiguousarray(weights[:, used]),
            graph.edge_weights if len(graph.edge_weights) else None,
            allowed,
        )
        kept = refine(graph, constraints, parts)
        climb(graph, constraints, parts, seed)
        return not kept, _weighted_cut(graph, parts), parts

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
        levels: list[tuple[Graph, Constraints, Labels, Homes | None]] = []
        fewest = FEWEST_COMBINED if metis else FEWEST_NODES
        graph, constraints = self.graph, self.constraints
        largest, most = max(2, graph.num_nodes // (32 * self.count)), 1
        while graph.num_nodes > fewest * self.count:
            most = min(largest, most * GROWTH)
            labels = find_clusters(graph, most, seed * 17 + len(levels), cells)
            smaller, numbers = contract(graph, labels)
            if smaller.num_nodes > LEAST_SHRINKING * graph.num_nodes:
                break
            levels.append((graph, constraints, numbers, homes))
            graph, constraints = smaller, constraints.contracted(numbers, smaller.num_nodes)
            cells, parts = (_of_clusters(values, numbers, graph.num_nodes) for values in (cells, parts))
            homes = homes and homes.contracted(numbers, graph.num_nodes)
        parts = parts.copy()
        climb(graph, constraints, parts, seed, homes=homes)
        if metis:
            parts = self._best_of(graph, constraints, parts, seed)
        for graph, constraints, numbers, homes in reversed(levels):
            parts = parts[numbers]
            climb(graph, constraints, parts, seed, homes=homes)
        return parts

    def _best_of(self, graph: Graph, constraints: Constraints, parts: Labels, seed: int) -> Labels:
        """Return the best of some partitions and of those that METIS makes of the same graph."""
        broken = bool((constraints.loads(parts) > constraints.most).any())
        tried = [(broken, _weighted_cut(graph, parts), parts)]
        for number in range(COMBINED_SEEDS):
            try:
                tried.append(self._metis(graph, constraints, seed + NEXT_SEED * number))
            except LibraryDiedError:
                raise
            except EngineError:
                break  # the partitions that are there are enough
        return min(tried, key=lambda one: one[:2])[2]


def different(found: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate of each cut, the best first."""
    by_cut: dict[tuple[bool, int], Candidate] = {}
    for one in sorted(found, key=lambda one: one[:3]):
        by_cut.setdefault(one[:2], one)
    return [*by_cut.values()]


def new_pairs(
    found: Sequence[Candidate], most: int, combined: set[frozenset[int]]
) -> list[tuple[Candidate, Candidate, int]]:
    """Return pairs of the best candidates that are not combined yet, each with a number for its seed.

    Args:
        found: All candidates; they must stay in memory.
        most: How many of the best are paired, each with every other.
        combined: Pairs of earlier rounds; the new ones are added.
    """
    pairs = []
    for (rank, better), (lower, other) in combinations(enumerate(different(found)[:most]), 2):
        key = frozenset((id(better.parts), id(other.parts)))
        if key not in combined:
            combined.add(key)
            pairs.append((better, other, 100 * rank + lower))
    return pairs


def overlay(one: Labels, other: Labels) -> Labels:
    """Return (nodes,) int32, equal for nodes that both partitions put together."""
    count = int(other.max(initial=0)) + 1
    cells: Labels = np.unique(one.astype(np.int64) * count + other, return_inverse=True)[1].astype(np.int32)
    return cells


def _of_clusters(values: Labels, numbers: Labels, count: int) -> Labels:
    found = np.empty(count, np.int32)
    found[numbers] = values
    return found


def _weighted_cut(graph: Graph, parts: Labels) -> int:
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
    cut = parts[rows] != parts[graph.neighbours]
    return int(graph.edge_weights[cut].sum() if len(graph.edge_weights) else cut.sum()) // 2


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
