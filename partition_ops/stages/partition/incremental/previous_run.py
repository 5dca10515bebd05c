"""The earlier run that an incremental one follows, and the assignment that it left."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import num_parts_of, read_parts
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.graph_counts import NodeCounts, StillThere, find_id_change, node_counts_of_run
from partition_ops.artifacts.parhip import read_degrees
from partition_ops.artifacts.verified_run import VerifiedRun, read_migration, verified_run
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.partition.problem import Parts
from partition_ops.storage import Store


@dataclass(frozen=True)
class PreviousAssignment:
    """The partitions of the old nodes of a graph that has grown, for engines."""

    homes: Parts  # (nodes,) int32, the old partition by homogeneous ID; -1 for new nodes
    # (nodes,) int32, old numbers of neighbours, -1 for new nodes; None if they are not known
    degrees: npt.NDArray[np.int32] | None


def check_previous(run: Store, destination: Store | None) -> VerifiedRun:
    """Return the earlier run, checked against its manifest.

    Args:
        run: Root of the earlier run.
        destination: Root of the run that follows it; None if it is not known yet.

    Raises:
        UsageError: The run that follows it has the same root, or one lies in the other.
        InvalidInputError: The earlier run is not finished.
    """
    if destination is None:
        return verified_run(run)
    remedy = "Give the output a root of its own."
    if run.canonical_uri == destination.canonical_uri:
        raise UsageError("A run cannot follow itself", found=run.uri, remedy=remedy)
    for inner, outer in ((run, destination), (destination, run)):
        if inner.canonical_uri.startswith(f"{outer.canonical_uri}/"):
            raise UsageError(
                "The output and the previous run lie one in the other",
                found=f"{inner.uri} in {outer.uri}",
                remedy=remedy,
            )
    return verified_run(run)


class PreviousRun:
    """An earlier finished run; everything that is read of it is checked against its manifest.

    Its methods raise `InvalidInputError` if a file is missing or damaged.

    Attributes:
        store: Its root, see `VerifiedRun`.
        counts: Counts of its input.
        still_there: Which of its nodes have an ID now, of types with others.
        num_parts: Number of its partitions.
    """

    def __init__(self, run: Store, still_there: StillThere) -> None:
        self.still_there = still_there
        self.store = verified_run(run)  # says so where it is not finished
        self.counts = node_counts_of_run(self.store)
        self.num_parts = num_parts_of(self._assignment)

    def check_assignment(self) -> None:
        """Check the assignment against the manifest now, not when it is read."""
        for key in self.store.listed:
            if key.startswith(f"{layout.ASSIGNMENT}/"):
                self.store.local_copy(key)

    @property
    def digest(self) -> str:
        """SHA-256 of its manifest, and so of everything that it has written."""
        return self.store.manifest_sha256

    def unusable(self, now: NodeCounts, num_parts: int, trainers: int) -> str | None:
        """Return why a run with such counts and options cannot begin from its assignment; None if it can."""
        if self.num_parts != num_parts:
            return f"the number of partitions has changed from {self.num_parts} to {num_parts}"
        if self._trainers != trainers:
            return f"the number of trainers of a machine has changed from {self._trainers} to {trainers}"
        return find_id_change(self.counts, now, self.still_there)

    def read_parts(self) -> Parts:
        """Return (old nodes,) int32, the partition of each old node, or its trainer if there are several."""
        if self._trainers == 1:
            return self.read_machines()
        arrays = [np.zeros(0, np.int32)]
        for name, count in self.counts.items():
            key = layout.assignment_trainers(name)
            array = np.load(self._assignment.local_copy(key), allow_pickle=False)
            most = self.num_parts * self._trainers
            if array.shape != (count,) or (count and not 0 <= array.min() <= array.max() < most):
                raise InvalidInputError(
                    f"{self._assignment.uri_of(key)} does not fit the run",
                    expected=f"{count} numbers below {most}",
                )
            arrays.append(array.astype(np.int32))
        return np.concatenate(arrays)

    def read_machines(self) -> Parts:
        """Return (old nodes,) int32, the partition of every old node."""
        return read_parts(self._assignment, self.counts, self.num_parts)

    def read_degrees(self) -> npt.NDArray[np.int32] | None:
        """Return (old nodes,) int32, their numbers of neighbours; None if the run has not kept its graph."""
        key = layout.PREPARED_GRAPH
        if key not in self.store.listed or not self.store.run.exists(key):
            return None
        expected = self.store.read_json(layout.PREPARED_STATS).get("degrees_sha256")
        if expected is None:  # of an older version: only the digest of the whole file is known
            degrees = read_degrees(self.store, key)
        else:
            degrees = read_degrees(self.store.run, key)
            found = hashlib.sha256(degrees.data).hexdigest()
            if found != expected:
                self.store.refuse(key, f"degrees with SHA-256 {found}", f"SHA-256 {expected}")
        return degrees.clip(max=2**31 - 1).astype(np.int32)

    @property
    def edge_cut(self) -> float:
        """Share of the neighbouring pairs that it cut; if it did not record that, share of its edges."""
        found = self._sidecar.get("edge_cut")
        if found is None:
            found = self.store.read_json(layout.QUALITY_REPORT)["edge_cut"]
        return float(found["fraction"])

    @property
    def last_full_cut(self) -> float | None:
        """Share of the neighbouring pairs that the last full run cut, this one or one before it."""
        migration = read_migration(self.store)
        if migration is None or migration["mode"] == "full":
            return self.edge_cut
        found = migration["edge_cut"]["last_full"]
        return None if found is None else float(found)

    @property
    def _assignment(self) -> Store:
        return self.store.child(layout.ASSIGNMENT)

    @cached_property
    def _sidecar(self) -> dict[str, Any]:
        """How the assignment was made; empty for one that was made elsewhere."""
        if not self._assignment.exists(layout.ASSIGNMENT_SIDECAR):
            return {}
        return read_document(self._assignment, layout.ASSIGNMENT_SIDECAR, "assignment")

    @property
    def _trainers(self) -> int:
        return int(self._sidecar.get("made_by", {}).get("num_trainers_per_machine", 1))
