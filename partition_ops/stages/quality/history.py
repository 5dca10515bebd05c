"""Figures of a graph's runs: ``quality/history.json``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import published_at
from partition_ops.artifacts.run_figures import seconds_by_stage, summary
from partition_ops.artifacts.verified_run import verified_run
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes

HISTORY_VERSION = 1
LONGEST = 200  # runs
Entry = dict[str, Any]
Report = Mapping[str, Any]


def earlier_entries(previous: Store) -> list[Entry]:
    """Return the history of an earlier run, with the URI, the time and the seconds of that run itself.

    Args:
        previous: Root of the earlier run, where ``quality`` has been done.

    Raises:
        InvalidInputError: It is not finished, or one of its documents is broken or not as it was written.
    """
    run = verified_run(previous)
    report = read_document(run, layout.QUALITY_REPORT, "quality_report")
    try:
        seconds = seconds_by_stage(run.run)
    except (InvalidInputError, KeyError, TypeError):  # records are no artifacts: nothing depends on them
        seconds = {}
    own = {**summary(report), "run": run.uri, "published": published_at(run), "seconds": seconds}
    return [*kept_entries(run), own][-LONGEST:]


def kept_entries(run: Store) -> list[Entry]:
    """Return the entries that the history of a run has of the runs before it."""
    if not run.exists(layout.QUALITY_HISTORY):
        return []
    entries: list[Entry] = read_document(run, layout.QUALITY_HISTORY, "history")["entries"][:-1]
    return entries


def as_input(entries: Sequence[Entry]) -> StoredObject:
    """Return the earlier history as an input that the report depends on.

    Times are left out: some answers of a server round them, and copies of a run have others.
    """
    data = json_bytes([{name: one[name] for name in one if name != "published"} for one in entries])
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
