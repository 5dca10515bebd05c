"""The quality gate: compare the reports of a run with limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.run_figures import slowest_trainer
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.errors import QualityGateError, UsageError
from partition_ops.stages.publish.options import Gate
from partition_ops.storage import Store


@dataclass(frozen=True)
class Limited:
    """A figure and its limit."""

    what: str
    found: float
    allowed: float

    @property
    def exceeded(self) -> bool:
        return self.found > self.allowed

    def __str__(self) -> str:
        return f"{self.what} {self.found:.4g}, at most {self.allowed:.4g} allowed"


def check_gate(gate: Gate, destination: Store) -> list[Limited]:
    """Return the figures of a run that exceed the limits of a gate; otherwise as `limited_figures`."""
    return [one for one in limited_figures(gate, destination) if one.exceeded]


def limited_figures(gate: Gate, destination: Store) -> list[Limited]:
    """Return the figures of a run that a gate limits.

    Args:
        gate: Limits.
        destination: Root of the run, where ``quality`` has been done.

    Raises:
        InvalidInputError: The stage ``quality`` has not been done, or a report is broken.
        UsageError: The gate limits what trainers fetch, but the report does not have it.
    """
    report = read_document(destination, layout.QUALITY_REPORT, "quality_report")
    if gate.max_remote_rows is not None or gate.max_slowest is not None:
        _check_training(report)
    trainer = slowest_trainer(report)
    measured = {
        "edge cut": (report["edge_cut"]["fraction"], gate.max_edge_cut),
        **{
            f"imbalance of {name}": (entry["imbalance"], gate.max_imbalance)
            for name, entry in report["node_types"].items()
        },
        "remote rows a batch of the slowest trainer": (trainer["slowest_rows"], gate.max_remote_rows),
        "slowest trainer over the mean": (trainer["slowest_ratio"], gate.max_slowest),
        "share of old nodes moved": (moved_share(destination), gate.max_moved),
    }
    return [
        Limited(what, found, allowed)
        for what, (found, allowed) in measured.items()
        if found is not None and allowed is not None
    ]


def _check_training(report: Mapping[str, Any]) -> None:
    """Check that a report has figures of training, or that there are no train nodes.

    Raises:
        UsageError: It does not.
    """
    training = report.get("training", {"left_out": "another version of this package wrote the report"})
    if "left_out" in training:
        raise UsageError(
            "--max-remote-rows and --max-slowest limit figures that the quality report does not have",
            found=training["left_out"],
            remedy="Omit them, or sample fewer layers with --fanout.",
        )


def enforce_gate(gate: Gate, destination: Store) -> None:
    """Reject a run that exceeds a limit of a gate.

    Raises:
        UsageError: The gate limits moved nodes, but the run follows no other, so it has no old nodes.
        InvalidInputError: As of `check_gate`.
        QualityGateError: A figure exceeds its limit.
    """
    if gate.max_moved is not None and read_migration(destination) is None:
        raise no_old_nodes(destination)
    breaches = check_gate(gate, destination)
    if breaches:
        raise QualityGateError(
            f"The partitions in {destination.uri} do not pass the quality gate",
            found=[str(breach) for breach in breaches],
            remedy="Read the quality report; then partition with other options, or raise the limits.",
        )


def no_old_nodes(destination: Store) -> UsageError:
    """Return the error for a limit of moved nodes in a run that follows no other."""
    return UsageError(
        "--max-moved limits old nodes that moved since an earlier run",
        found=f"{destination.uri} follows no earlier run",
        remedy="Omit it, or partition with --previous RUN.",
    )


def moved_share(destination: Store) -> float | None:
    """Return the share of old nodes that a run moved; None if it follows no other run."""
    migration = read_migration(destination)
    if migration is None:
        return None
    types = migration["node_types"].values()
    old = sum(entry["old"] for entry in types)
    return sum(entry["moved"] for entry in types) / old if old else 0.0
