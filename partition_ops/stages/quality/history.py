"""Figures of a graph's runs, ``quality/history.json``, and how long the stages of a run took."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.verified_run import verified_run
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document

HISTORY_VERSION = 1
LONGEST = 200  # runs
SUMMED = {"convert-scatter": "scatter", "convert-part": "gather"}  # tasks with a number behind their name
STAGES = ("validate", "schema", "prepare", "partition", "scatter", "gather", "idmap")
Entry = dict[str, Any]
Report = Mapping[str, Any]


def earlier_entries(previous: Store) -> list[Entry]:
    """Return the history of an earlier run, with the URI and the seconds of that run itself.

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
    own = {**summary(report), "run": run.uri, "seconds": seconds}
    return [*kept_entries(run), own][-LONGEST:]


def kept_entries(run: Store) -> list[Entry]:
    """Return the entries that the history of a run has of the runs before it."""
    if not run.exists(layout.QUALITY_HISTORY):
        return []
    document = run.read_json(layout.QUALITY_HISTORY)
    check_document(document, "history", where=run.uri_of(layout.QUALITY_HISTORY))
    entries: list[Entry] = document["entries"][:-1]
    return entries


def as_input(entries: Sequence[Entry]) -> StoredObject:
    """Return the earlier history as an input that the report depends on."""
    data = json_bytes(entries)
    return StoredObject(layout.QUALITY_HISTORY, len(data), hashlib.sha256(data).hexdigest())


def history_document(report: Report, earlier: Sequence[Entry]) -> dict[str, Any]:
    """Return the content of ``quality/history.json``: earlier runs, then this one.

    Args:
        report: Content of ``quality/report.json``.
        earlier: Entries of the runs before, oldest first.
    """
    return {
        "version": HISTORY_VERSION,
        "graph_name": report["graph_name"],
        "entries": [*earlier, summary(report)],
    }


def summary(report: Report) -> Entry:
    """Return the figures of ``quality/report.json`` that are compared from run to run."""
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


def seconds_by_stage(destination: Store) -> dict[str, float]:
    """Return the seconds of the tasks done so far; scatter and gather are sums over their tasks."""
    found: dict[str, float] = {}
    for entry in destination.list(f"{layout.RECORDS}/"):
        task, suffix = entry.key.removeprefix(f"{layout.RECORDS}/").rsplit(".", 1)
        if suffix != "json":
            continue
        name = SUMMED.get(task.rstrip("0123456789"), task)
        with suppress(InvalidInputError):  # records are not artifacts: a broken one has no time
            found[name] = found.get(name, 0.0) + read_record(destination, task)["seconds"]
    return {name: round(found[name], 3) for name in STAGES if name in found}
