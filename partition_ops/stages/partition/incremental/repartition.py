"""Partition a graph that may have been partitioned before, and report which nodes moved."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.graph_counts import find_id_change, node_counts_of_graph, spread_old_values
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.artifacts.verified_run import DRIFTED
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.stages.partition.engine import Engine
from partition_ops.stages.partition.incremental.matching import best_matching
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment, PreviousRun
from partition_ops.stages.partition.multilevel.graph import NOWHERE, EdgeCut, Graph, constraints_of, edge_cut
from partition_ops.stages.partition.multilevel.refine import restore_balance
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.stages.partition.small_graphs import even_out, is_small
from partition_ops.system.json_documents import check_document

MOST_RENUMBERED = 4096  # partitions; the table of overlaps grows with the square
LAST = "that of the last full run"
logger = logging.getLogger("partition_ops")
REPORT_VERSION = 1
Figures = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """An assignment that follows an earlier one."""

    parts: Parts  # (nodes,) int32, partition by homogeneous ID; of trainers if machines have several
    # (nodes,) int32, the old partition, -1 for new nodes; None if old IDs are not valid any more
    before: Parts | None
    incremental: bool  # whether most old nodes stayed in their partitions
    reason: str | None  # why it is a full run, or why it is none although the cut has drifted
    cut: EdgeCut | None  # cut of these partitions; None for an engine that does not look at edges
    last_full: float | None  # share of edges cut by the last full run
    full: EdgeCut | None  # cut of a full run on this graph, if there was one


def repartition(problem: Problem, engine: Engine, previous: PreviousRun | None) -> Outcome:
    """Partition a graph that may have been partitioned before, when it was smaller.

    It falls back to a full run if the IDs of the old nodes or the number of partitions have changed, if
    balance cannot be restored, or if the share of edges cut has drifted too far from that of the last full
    run in every assignment that the engine offers; `Engine.most_drift` says how far that is. In the last case
    it still keeps the first of these assignments whose share is within the drift of that of the new full run.

    Peak memory: that of the engine, and 24 bytes a node.
    """
    if previous is None:
        parts = _partition(problem, engine)
        return Outcome(parts, None, False, None, _cut(problem, engine, parts), None, None)
    return _Repartition(problem, engine, previous).run()


class _Repartition:
    """Partitions one graph."""

    def __init__(self, problem: Problem, engine: Engine, previous: PreviousRun) -> None:
        self.problem = problem
        self.engine = engine
        self.previous = previous
        self.trainers = problem.config.num_trainers_per_machine
        self.now = node_counts_of_graph(problem.metadata)
        self.most_drift = engine.most_drift(problem) if engine.needs_graph else problem.config.drift

    def run(self) -> Outcome:
        config = self.problem.config
        reason = self.previous.unusable(self.now, config.num_parts, self.trainers)
        if reason is not None:
            changed = find_id_change(self.previous.counts, self.now, self.previous.still_there)
            return self._full(reason, None if changed else self._spread(self.previous.read_machines()))
        homes = self._spread(self.previous.read_parts())
        before = np.where(homes == NOWHERE, NOWHERE, homes // self.trainers).astype(np.int32)
        degrees = self.previous.read_degrees() if self.engine.needs_graph else None
        old = PreviousAssignment(homes, None if degrees is None else self._spread(degrees))
        last_full = self.previous.last_full_cut
        ways: list[Outcome] = []
        times = float("inf")
        for parts in self.engine.follow(self.problem, old):
            cut = _cut(self.problem, self.engine, parts)
            ways.append(Outcome(parts, before, True, None, cut, last_full, None))
            times = min(times, _times(cut, last_full))
            if times <= self.most_drift:
                break
            if len(ways) == 1 and (kept := self._not_drifted(ways)):  # later ways take longer than the sample
                return kept
        if not ways:
            return self._full("balance cannot be kept", before)
        reason = f"{DRIFTED} {times:.3f} times {LAST}"
        if times <= self.most_drift:
            full = self._full("", before).cut if config.compare_full else None
            allowed = f"{reason}, and a full run follows above {self.most_drift:.3f} times"
            return replace(ways[-1], full=full, reason=allowed if times > config.drift else None)
        if kept := self._not_drifted(ways):
            return kept
        full_run = self._full(reason, before)
        for outcome in ways:
            if (now := _times(outcome.cut, full_run.last_full)) <= self.most_drift:
                reason = (
                    f"{DRIFTED} {_times(outcome.cut, outcome.last_full):.3f} times {LAST},"
                    f" but {now:.3f} times that of a full run now"
                )
                return replace(outcome, reason=reason, last_full=full_run.last_full, full=full_run.cut)
        return full_run

    def _not_drifted(self, ways: list[Outcome]) -> Outcome | None:
        """Return the way with the smallest cut, if a sample of a full run says that it has not drifted."""
        best, cut = min(ways, key=lambda one: _times(one.cut, 1.0)), self._sampled
        times = _times(best.cut, cut.fraction if cut else None)
        if cut is None or times > self.most_drift:
            return None
        reason = (
            f"{DRIFTED} {_times(best.cut, best.last_full):.3f} times {LAST},"
            f" but {times:.3f} times that of another partition of this graph"
        )
        return replace(best, reason=reason, last_full=cut.fraction)

    @cached_property
    def _sampled(self) -> EdgeCut | None:
        """The cut of a sample of a full run, if the engine has one and no full run is asked for."""
        parts = None if self.problem.config.compare_full else self.engine.sample(self.problem)
        return None if parts is None else _cut(self.problem, self.engine, parts)

    def _full(self, reason: str, before: Parts | None) -> Outcome:
        """Partition from scratch, and number the partitions so that most old nodes stay in theirs."""
        if reason:
            logger.info("partition: a full run, because %s", reason)
        parts = _partition(self.problem, self.engine)
        if before is not None:
            machines = renumber(parts // self.trainers, before, self.problem.config)
            parts = machines * self.trainers + parts % self.trainers
        cut = _cut(self.problem, self.engine, parts)
        return Outcome(parts, before, False, reason, cut, cut.fraction if cut else None, cut)

    def _spread(self, values: Parts) -> Parts:
        """Return the values of old nodes for all nodes; new ones get `NOWHERE`."""
        before = self.previous
        return spread_old_values(before.counts, self.now, values, NOWHERE, before.still_there)


def _partition(problem: Problem, engine: Engine) -> Parts:
    parts = engine.partition(problem)
    if not engine.needs_graph:
        return parts
    if is_small(problem.config, len(parts)):
        if problem.config.balance == "edges":
            return parts
        return even_out(problem.config, problem.graph, problem.classes, parts, problem.edge_weights)
    if problem.limits_in_edges:  # which the engine's library may not have kept
        constraints = constraints_of(problem)
        if (constraints.loads(parts)[:, -1] > constraints.most[:, -1]).any():
            graph, parts = Graph.of_input(problem.graph, problem.edge_weights), parts.copy()
            restore_balance(graph, constraints, parts, tuning=problem.tuning)
    return parts


def _cut(problem: Problem, engine: Engine, parts: Parts) -> EdgeCut | None:
    """Return the cut, between machines if they have several trainers each."""
    if not engine.needs_graph:
        return None
    return edge_cut(Graph.of_input(problem.graph), parts // problem.config.num_trainers_per_machine)


def _times(cut: EdgeCut | None, share: float | None) -> float:
    """Return the share of edges cut divided by another."""
    if cut is None or share is None or cut.pairs == 0:
        return 1.0
    return cut.fraction / share if share else float("inf")


def renumber(parts: Parts, before: Parts, config: PartitionConfig) -> Parts:
    """Return the same partitions, numbered so that fewest nodes move: an assignment of maximum overlap.

    Only partitions with the same of `target_shares` swap numbers. More than `MOST_RENUMBERED` keep theirs.
    ``before`` are the (nodes,) old partitions, -1 for new nodes.

    Peak memory: 16 bytes a node, 16 bytes times the square of the number of partitions.
    """
    count = config.num_parts
    if count > MOST_RENUMBERED:
        return parts
    old = np.flatnonzero((before >= 0) & (before < count))
    cells = parts[old].astype(np.int64) * count + before[old]
    overlaps = np.bincount(cells, minlength=count * count).reshape(count, count)
    wanted, numbers = np.array(config.target_shares or [1.0] * count), np.arange(count, dtype=np.int32)
    for share in np.unique(wanted):
        same = np.flatnonzero(wanted == share)
        numbers[same] = same[best_matching(overlaps[np.ix_(same, same)])]
    return numbers[parts]


def migration_report(problem: Problem, previous: PreviousRun, outcome: Outcome) -> Figures:
    """Return ``assignment/migration.json``; its format is in schemas/migration.schema.json.

    The bytes to fetch are those of the features of nodes that are new in their partition. If the IDs of old
    nodes are not valid any more, all nodes are new.
    """
    metadata, count = problem.metadata, problem.config.num_parts
    now = outcome.parts // problem.config.num_trainers_per_machine
    before = np.full(len(now), -1, np.int32) if outcome.before is None else outcome.before
    row_bytes = _row_bytes(problem)
    nodes, balance, balance_before = {}, {}, {}
    for name, (begin, end) in zip(metadata.node_types, pairwise(metadata.node_offsets), strict=True):
        mine, then = now[begin:end], before[begin:end]
        old = int(np.count_nonzero(then >= 0))
        moved, new = int(np.count_nonzero((then >= 0) & (then != mine))), end - begin - old
        nodes[name] = {
            "old": old,
            "moved": moved,
            "new": new,
            "bytes_to_fetch": (moved + new) * row_bytes[name],
        }
        balance[name] = imbalance(mine, count)
        balance_before[name] = imbalance(then[then >= 0], previous.num_parts)
    return {
        "version": REPORT_VERSION,
        "mode": "incremental" if outcome.incremental else "full",
        "reason": outcome.reason,
        "previous": {"run": previous.store.uri, "manifest_sha256": previous.digest},
        "node_types": nodes,
        "bytes_to_fetch": sum(one["bytes_to_fetch"] for one in nodes.values()),
        "edge_cut": {
            "before": _rounded(previous.edge_cut),
            "now": _rounded(outcome.cut.fraction if outcome.cut else None),
            "last_full": _rounded(outcome.last_full),
            "full": _rounded(outcome.full.fraction if outcome.full else None),
        },
        "imbalance": {"before": balance_before, "now": balance},
    }


def write_migration(
    writer: ArtifactWriter, problem: Problem, previous: PreviousRun, outcome: Outcome
) -> Figures:
    """Write the report; return figures for the record."""
    report = migration_report(problem, previous, outcome)
    check_document(report, "migration", where=layout.MIGRATION)
    writer.write_json(layout.MIGRATION, report)
    types = report["node_types"].values()
    totals = {kind: sum(one[kind] for one in types) for kind in ("old", "moved", "new")}
    reason = {"reason": outcome.reason} if outcome.reason else {}
    return {"mode": report["mode"], **totals, "bytes_to_fetch": report["bytes_to_fetch"], **reason}


def imbalance(parts: Parts, count: int) -> float:
    """Return the largest number of nodes in a partition divided by the ideal share."""
    sizes = np.bincount(parts, minlength=count)
    return round(float(sizes.max()) * count / len(parts), 6) if len(parts) else 1.0


def _row_bytes(problem: Problem) -> dict[str, int]:
    """Return the bytes of all features of a node, by node type; 0 without the input."""
    found = dict.fromkeys(problem.metadata.node_types, 0)
    if problem.source is not None:
        readers = feature_readers(problem.source, problem.metadata)
        for feature in problem.metadata.node_features:
            found[feature.type_name] += readers[feature.key].row_bytes
    return found


def _rounded(fraction: float | None) -> float | None:
    return None if fraction is None else round(fraction, 6)
