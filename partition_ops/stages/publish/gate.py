"""Compare the reports of a run with what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.artifacts import layout
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.errors import QualityGateError, UsageError
from partition_ops.stages.publish.options import Gate
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document


@dataclass(frozen=True)
class Breach:
    """Something that is worse than allowed."""

    what: str
    found: float
    allowed: float

    def __str__(self) -> str:
        return f"{self.what} {self.found:.4g}, at most {self.allowed:.4g} allowed"


def check_gate(gate: Gate, destination: Store) -> list[Breach]:
    """What of a run is worse than a gate allows.

    Args:
        gate: What is allowed.
        destination: Root of the run, where ``quality`` has been done.

    Raises:
        InvalidInputError: The stage ``quality`` has not been done, or a report is broken.
    """
    report = destination.read_json(layout.QUALITY_REPORT)
    check_document(report, "quality_report", where=destination.uri_of(layout.QUALITY_REPORT))
    measured = {
        "edge cut": (report["edge_cut"]["fraction"], gate.max_edge_cut),
        **{
            f"imbalance of {name}": (entry["imbalance"], gate.max_imbalance)
            for name, entry in report["node_types"].items()
        },
        "share of old nodes moved": (moved_share(destination), gate.max_moved),
    }
    return [
        Breach(what, found, allowed)
        for what, (found, allowed) in measured.items()
        if found is not None and allowed is not None and found > allowed
    ]


def enforce_gate(gate: Gate, destination: Store) -> None:
    """Refuse a run that is worse than a gate allows.

    Raises:
        UsageError: It follows no other, so there are no old nodes that could have moved.
        InvalidInputError: As of `check_gate`.
        QualityGateError: It is worse.
    """
    if gate.max_moved is not None and read_migration(destination) is None:
        raise no_old_nodes(destination)
    breaches = check_gate(gate, destination)
    if breaches:
        raise QualityGateError(
            f"The partitions in {destination.uri} do not pass the quality gate",
            found=[str(breach) for breach in breaches],
            remedy="Look at the quality report; then partition with other options, or allow more.",
        )


def no_old_nodes(destination: Store) -> UsageError:
    """Why nothing can be said of what moved."""
    return UsageError(
        "--max-moved is about the old nodes of a run that has followed another one",
        found=f"{destination.uri} follows none",
        remedy="Leave it out, or partition with --previous RUN.",
    )


def moved_share(destination: Store) -> float | None:
    """Share of the old nodes that a run moved; None of a run that follows no other."""
    migration = read_migration(destination)
    if migration is None:
        return None
    types = migration["node_types"].values()
    old = sum(entry["old"] for entry in types)
    return sum(entry["moved"] for entry in types) / old if old else 0.0
