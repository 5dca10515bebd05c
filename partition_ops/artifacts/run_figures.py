"""Figures of a run that are compared from run to run, and the seconds of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.stage import job_stages
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store


def summary(report: Mapping[str, Any]) -> dict[str, Any]:
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
        **slowest_trainer(report),
    }


def slowest_trainer(report: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the expected remote rows a batch of the slowest trainer, and their ratio to the mean.

    They are None if the report has no figures of training, or there are no train nodes.
    """
    slowest = report.get("training", {}).get("slowest") or {}
    return {"slowest_rows": slowest.get("remote_rows_per_batch"), "slowest_ratio": slowest.get("ratio")}


def seconds_by_stage(destination: Store) -> dict[str, float]:
    """Return the seconds of the tasks done so far, by their names in figures, in the order of the stages.

    Those of scatter and gather are sums over their tasks. ``ingest`` is the first one, if the run made
    its graph of tables.
    """
    kinds = {kind.name: kind.seconds for stage in job_stages() for kind in stage.all_tasks if kind.seconds}
    found: dict[str, float] = {}
    for entry in destination.list(f"{layout.RECORDS}/"):
        task = layout.task_of(entry.key) or ""
        name = kinds.get(task) or kinds.get(task.rstrip("0123456789"))
        if name is None:
            continue
        with suppress(InvalidInputError):  # records are not artifacts: a broken one has no time
            found[name] = found.get(name, 0.0) + read_record(destination, task)["seconds"]
    names = [layout.INGEST, *kinds.values()]  # the folder has the name of the task
    with suppress(InvalidInputError):  # the graph was there, so that the run has no task for it
        found[layout.INGEST] = read_record(destination.child(layout.INGEST), layout.INGEST)["seconds"]
    return {name: round(found[name], 3) for name in names if name in found}


def relative_shares(per_part: Sequence[int]) -> list[float]:
    """Return the number of nodes in each partition over an equal share; 1 for a type without nodes."""
    total = sum(per_part)
    return [count * len(per_part) / total if total else 1.0 for count in per_part]
