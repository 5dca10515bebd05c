"""Whether a run can follow the one before, and what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from partition_ops.artifacts.growth import Counts, broken_ids, carried
from partition_ops.stages.partition.edge_cut import EdgeCut, edge_cut
from partition_ops.stages.partition.engines.two_level.graph import Graph
from partition_ops.stages.partition.engines.two_level.refine import NOWHERE
from partition_ops.stages.partition.incremental.match import renumbered
from partition_ops.stages.partition.incremental.old import Old
from partition_ops.stages.partition.incremental.previous import PreviousRun
from partition_ops.stages.partition.problem import Parts, Problem

LAST = "that of the last full run"
logger = logging.getLogger("partition_ops")


@dataclass(frozen=True)
class Outcome:
    """An assignment that follows an earlier one.

    Attributes:
        parts: (nodes,) int32, partition by homogeneous ID; of trainers where machines have several.
        before: (nodes,) int32, the old partition, -1 for new nodes; None where IDs do not hold any more.
        incremental: Whether old nodes were kept where they were.
        reason: Why it was a full run, or why none although the cut has drifted.
        cut: Of these partitions; None for an engine that does not look at edges.
        last_full: Share of edges cut by the last full run.
        full: Of a full run on this graph, if there was one.
    """

    parts: Parts
    before: Parts | None
    incremental: bool
    reason: str | None
    cut: EdgeCut | None
    last_full: float | None
    full: EdgeCut | None


class Engine(Protocol):
    """What is called of an engine of `partition_ops.stages.partition.engines.registry`."""

    @property
    def run(self) -> Callable[[Problem], Parts]:
        """Partitions a graph from nothing."""

    @property
    def follow(self) -> Callable[[Problem, Old], Parts | None]:
        """Partitions it from old partitions, or gives None where balance cannot be restored so."""

    @property
    def regroup(self) -> Callable[[Problem, Old], Iterator[Parts]] | None:
        """Gives other ways to follow, with more old nodes moved, where that cuts too many edges."""

    @property
    def needs_graph(self) -> bool:
        """Whether there is a prepared graph."""


def repartition(problem: Problem, engine: Engine, previous: PreviousRun | None) -> Outcome:
    """Partition a graph, which may have been partitioned before, when it was smaller.

    A full run it is where the IDs of the old nodes or the number of partitions have changed, where balance
    cannot be restored, or where the share of edges cut has drifted too far from that of the last full run in
    every way to follow it. In the last case the full run is only taken if they have drifted as far from it.

    Args:
        problem: The graph as it is now.
        engine: The engine.
        previous: The earlier run; None for a full run without any.

    Peak memory: that of the engine, and 24 bytes a node.
    """
    if previous is None:
        parts = engine.run(problem)
        return Outcome(parts, None, False, None, _cut(problem, engine, parts), None, None)
    return _Repartition(problem, engine, previous).run()


class _Repartition:
    """One graph at work."""

    def __init__(self, problem: Problem, engine: Engine, previous: PreviousRun) -> None:
        self.problem = problem
        self.engine = engine
        self.previous = previous
        self.trainers = problem.config.num_trainers_per_machine
        self.now = Counts.of_graph(problem.metadata)

    def run(self) -> Outcome:
        config = self.problem.config
        reason = self.previous.unusable(self.now, config.num_parts, self.trainers)
        if reason is not None:
            return self._full(reason, self._before())
        homes = carried(self.previous.counts, self.now, self.previous.read_parts(), NOWHERE)
        before, last_full = self._of_machines(homes), self.previous.last_full_cut
        ways: list[Outcome] = []
        times = float("inf")
        for parts in self._followed(Old(homes, self._degrees())):
            cut = _cut(self.problem, self.engine, parts)
            ways.append(Outcome(parts, before, True, None, cut, last_full, None))
            times = min(times, _times(cut, last_full))
            if times <= config.drift:
                break
        if not ways:
            return self._full("balance cannot be kept", before)
        if times <= config.drift:
            return replace(ways[-1], full=self._full("", before).cut) if config.compare_full else ways[-1]
        return self._kept(ways, self._full(f"the share of edges cut is {times:.3f} times {LAST}", before))

    def _followed(self, old: Old) -> Iterator[Parts]:
        """One way after the other, with more and more old nodes moved."""
        followed = self.engine.follow(self.problem, old)
        if followed is not None:
            yield followed
        if self.engine.regroup is not None:
            logger.info("partition: whole clusters are moved, because single nodes do not do")
            yield from self.engine.regroup(self.problem, old)

    def _full(self, reason: str, before: Parts | None) -> Outcome:
        """Partition anew, with the numbers that keep most old nodes where they are."""
        if reason:
            logger.info("partition: a full run, because %s", reason)
        parts = self.engine.run(self.problem)
        if before is not None:
            machines = renumbered(parts // self.trainers, before, self.problem.config)
            parts = machines * self.trainers + parts % self.trainers
        cut = _cut(self.problem, self.engine, parts)
        return Outcome(parts, before, False, reason, cut, cut.fraction if cut else None, cut)

    def _kept(self, ways: list[Outcome], full: Outcome) -> Outcome:
        """Of the ways to follow, the first that has not drifted from the full run, or else the full run."""
        for outcome in ways:
            times = _times(outcome.cut, full.last_full)
            if times <= self.problem.config.drift:
                before = _times(outcome.cut, outcome.last_full)
                reason = (
                    f"the share of edges cut is {before:.3f} times {LAST},"
                    f" but {times:.3f} times that of a full run now"
                )
                return replace(outcome, reason=reason, last_full=full.last_full, full=full.cut)
        return full

    def _before(self) -> Parts | None:
        """As `Outcome.before`, where the numbers of partitions or trainers have changed."""
        if broken_ids(self.previous.counts, self.now) is not None:
            return None
        parts = self.previous.read_machines()
        return carried(self.previous.counts, self.now, parts, NOWHERE)

    def _degrees(self) -> Parts | None:
        degrees = self.previous.read_degrees() if self.engine.needs_graph else None
        return None if degrees is None else carried(self.previous.counts, self.now, degrees, NOWHERE)

    def _of_machines(self, homes: Parts) -> Parts:
        return np.where(homes == NOWHERE, NOWHERE, homes // self.trainers).astype(np.int32)


def _cut(problem: Problem, engine: Engine, parts: Parts) -> EdgeCut | None:
    """Between machines, where they have several trainers each."""
    if not engine.needs_graph:
        return None
    return edge_cut(Graph.of_input(problem.graph), parts // problem.config.num_trainers_per_machine)


def _times(cut: EdgeCut | None, share: float | None) -> float:
    """The share of edges cut over another."""
    if cut is None or share is None or cut.pairs == 0:
        return 1.0
    return cut.fraction / share if share else float("inf")
