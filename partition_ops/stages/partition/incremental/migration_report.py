"""``assignment/migration.json``: how many nodes moved, and what trainers must fetch for them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.artifacts.verified_run import MIGRATION
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.stages.partition.incremental.previous_run import PreviousRun
from partition_ops.stages.partition.incremental.repartition import Outcome
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.json_documents import check_document

REPORT_VERSION = 1
Figures = dict[str, Any]


def migration_report(problem: Problem, previous: PreviousRun, outcome: Outcome) -> Figures:
    """Return ``assignment/migration.json``; its format is in schemas/migration.schema.json.

    The bytes to fetch are those of the features of nodes that are new in their partition. If the IDs of old
    nodes are not valid any more, all nodes are new.

    Args:
        problem: The graph as it is now.
        previous: The earlier run.
        outcome: The new assignment.
    """
    metadata, count = problem.metadata, problem.config.num_parts
    now = outcome.parts // problem.config.num_trainers_per_machine
    before = np.full(len(now), -1, np.int32) if outcome.before is None else outcome.before
    row_bytes = _row_bytes(problem)
    nodes, balance, balance_before = {}, {}, {}
    for name, (begin, end) in zip(metadata.node_types, pairwise(metadata.node_offsets), strict=True):
        types = slice(begin, end)
        nodes[name] = _node_type(before[types], now[types], row_bytes[name])
        balance[name] = imbalance(now[types], count)
        balance_before[name] = imbalance(before[types][before[types] >= 0], previous.num_parts)
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
    check_document(report, "migration", where=MIGRATION)
    writer.write_json(MIGRATION, report)
    types = report["node_types"].values()
    totals = {kind: sum(one[kind] for one in types) for kind in ("old", "moved", "new")}
    reason = {"reason": outcome.reason} if outcome.reason else {}
    return {"mode": report["mode"], **totals, "bytes_to_fetch": report["bytes_to_fetch"], **reason}


def imbalance(parts: Parts, count: int) -> float:
    """Return the largest number of nodes in a partition divided by the ideal share."""
    sizes = np.bincount(parts, minlength=count)
    return round(float(sizes.max()) * count / len(parts), 6) if len(parts) else 1.0


def _node_type(before: Parts, now: Parts, row_bytes: int) -> Figures:
    old = before >= 0
    moved = int(np.count_nonzero(before[old] != now[old]))
    new = len(now) - int(np.count_nonzero(old))
    return {
        "old": len(now) - new,
        "moved": moved,
        "new": new,
        "bytes_to_fetch": (moved + new) * row_bytes,
    }


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
