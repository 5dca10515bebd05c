"""How a graph's partitions have been from run to run: ``quality/history.json``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.verified_run import verified_run
from partition_ops.errors import InvalidInputError
from partition_ops.stages.quality.seconds import seconds_by_stage
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document

HISTORY_VERSION = 1
LONGEST = 200  # runs
Entry = dict[str, Any]
Report = Mapping[str, Any]


def earlier_entries(previous: Store) -> list[Entry]:
    """The history of an earlier run, with what it could not say of itself: where it is, and its seconds.

    Args:
        previous: Root of the earlier run, where ``quality`` has been done.

    Raises:
        InvalidInputError: It is not finished, or one of its documents is broken or not as it was written.
    """
    run = verified_run(previous)
    report = run.read_json(layout.QUALITY_REPORT)
    check_document(report, "quality_report", where=run.uri_of(layout.QUALITY_REPORT))
    try:
        seconds = seconds_by_stage(run.run)
    except (InvalidInputError, KeyError, TypeError):  # records are no artifacts: nothing depends on them
        seconds = {}
    own = {**_entry(report), "run": run.uri, "seconds": seconds}
    return [*kept_entries(run), own][-LONGEST:]


def kept_entries(run: Store) -> list[Entry]:
    """What the history of a run has of the runs before it."""
    if not run.exists(layout.QUALITY_HISTORY):
        return []
    document = run.read_json(layout.QUALITY_HISTORY)
    check_document(document, "history", where=run.uri_of(layout.QUALITY_HISTORY))
    entries: list[Entry] = document["entries"][:-1]
    return entries


def as_input(entries: Sequence[Entry]) -> StoredObject:
    """The history of the runs before as a file that the report depends on."""
    data = json_bytes(entries)
    return StoredObject(layout.QUALITY_HISTORY, len(data), hashlib.sha256(data).hexdigest())


def history_document(report: Report, earlier: Sequence[Entry]) -> dict[str, Any]:
    """What ``quality/history.json`` holds: earlier runs, and last this one, whose time the next run adds.

    Args:
        report: As it is in ``quality/report.json``.
        earlier: Entries of the runs before, oldest first.
    """
    return {
        "version": HISTORY_VERSION,
        "graph_name": report["graph_name"],
        "entries": [*earlier, _entry(report)],
    }


def _entry(report: Report) -> Entry:
    migration = report.get("migration")
    old = sum(one["old"] for one in migration["node_types"].values()) if migration else 0
    moved = sum(one["moved"] for one in migration["node_types"].values()) if migration else 0
    return {
        **{name: report[name] for name in ("num_parts", "num_nodes", "num_edges")},
        "bytes": sum(entry["bytes"] for entry in report["partitions"]),
        "edge_cut": report["edge_cut"]["fraction"],
        "worst_imbalance": max(entry["imbalance"] for entry in report["node_types"].values()),
        "replication_factor": report["replication_factor"],
        "mode": migration["mode"] if migration else "full",
        "moved": round(moved / old, 6) if old else None,
    }
