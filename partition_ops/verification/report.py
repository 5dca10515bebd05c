"""The list of all checks, and their findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, StorageError

REPORT_VERSION = 1
MOST_DETAILS = 5  # details of one check in the report; the rest is counted

CHECKS = {
    "schema": "schema/<graph>.json has the homogeneous ID ranges of the input's types",
    "assignment": "every node has one partition, the same in the text files and in their binary copies",
    "configuration": "partitions/<graph>.json describes this graph and names the files of every partition",
    "node-ranges": "the node ranges tile the new IDs, by partition and by type, with the assigned counts",
    "edge-ranges": "the edge ranges tile the new IDs, by partition and by type, with the counts of in-edges",
    "node-id-maps": "node ID maps are bijections, sorted by new ID, that agree with ranges and assignment",
    "edge-id-maps": "edge ID maps are bijections onto the edges left; the destination's partition has each",
    "order": "nodes and edges of one type in one partition are in the order of their original IDs",
    "fields": "graph.dgl has exactly DGL's fields and 'orig_id', with their dtypes, in the selected formats",
    "inner-nodes": "the inner nodes come first and are those of the assignment, with their IDs and types",
    "halo-nodes": "the halo nodes are exactly those within the hops, with their IDs and types",
    "node-owners": "'part_id' is the partition of every local node",
    "edge-ids": "the edges of a partition have the IDs and types of the edge ID map",
    "edge-ends": "every edge joins the nodes that it joins in the input",
    "every-node-once": "every node of the input is an inner node of exactly one partition",
    "every-edge-once": "every edge of the input that is not dropped is in exactly one partition",
    "dropped-edges": "the dropped edges are exactly those with the action drop, and they are listed",
    "original-ids": "orig_nids.dgl and orig_eids.dgl agree with the ID maps",
    "node-features": "node features have the dtype, shape and bits of the input's rows; none lost or extra",
    "edge-features": "edge features have the dtype, shape and bits of the input's rows; none lost or extra",
    "partition-book": "DGL's partition book maps new IDs to partition, type and type-wise ID, and back",
    "dgl-load": "dgl.distributed.load_partition loads every partition with DGL's debug checks",
    "migration": "assignment/migration.json lists what moved since the previous run, if there is one",
    "carry-over": "the carry-over maps lead from every old node's new ID in the previous run to that now",
    "manifest-artifacts": "the manifest lists every artifact with its size and SHA-256",
    "manifest-input": "the manifest's input section matches the input",
}


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: A key of `CHECKS`.
        passed: Whether the check found nothing wrong.
        detail: What was checked, or the first offending values.
    """

    name: str
    passed: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class VerifyReport:
    """The outcome of all checks, in the order of `CHECKS`."""

    input: str
    output: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    @property
    def passed(self) -> bool:
        return not self.failed

    def to_json(self) -> dict[str, Any]:
        checks = [check.to_json() for check in self.checks]
        return {
            "version": REPORT_VERSION,
            "input": self.input,
            "output": self.output,
            "passed": self.passed,
            "checks": checks,
        }

    def summary(self) -> str:
        """Return a line for every check, and one for all."""
        lines = [f"{'ok  ' if c.passed else 'FAIL'}  {c.name:<18}  {c.detail}" for c in self.checks]
        good = len(self.checks) - len(self.failed)
        return "\n".join([*lines, f"{good} of {len(self.checks)} checks passed for {self.output}"])


class Findings:
    """Collects the findings of the checks, so that one failure does not hide the next."""

    def __init__(self) -> None:
        self._failures: dict[str, list[str]] = {name: [] for name in CHECKS}
        self._begun: set[str] = set()

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """Run a part of a check; any exception is a failure of the check.

        All exceptions but those of the storage are caught, because damaged artifacts make DGL, pyarrow and
        NumPy fail in many ways, and the other checks must run nevertheless.
        """
        self._begun.add(name)
        try:
            yield
        except StorageError:  # says nothing about the output
            raise
        except InvalidInputError as error:
            self.fail(name, str(error))
        except Exception as error:
            self.fail(name, f"could not be checked, {type(error).__name__}: {error}")

    def fail(self, name: str, detail: str) -> None:
        self._failures[name].append(detail)

    def same(self, name: str, where: str, found: Any, expected: Any) -> bool:
        """Compare two small values."""
        if found != expected:
            self.fail(name, f"{where} is {_short(found)}, expected {_short(expected)}")
            return False
        return True

    def equal(
        self, name: str, where: str, found: npt.NDArray[Any], expected: npt.NDArray[Any], at: str = "row"
    ) -> bool:
        """Compare two arrays of shape (n,), and report the first difference."""
        if found.shape != expected.shape:
            self.fail(name, f"{where}: shape {found.shape}, expected {expected.shape}")
            return False
        differ = found != expected
        if not differ.any():
            return True
        first = int(np.argmax(differ))
        count = int(np.count_nonzero(differ))
        self.fail(
            name,
            f"{where}: {at} {first} is {found[first]}, expected {expected[first]}"
            f" ({count} of {len(found)} differ)",
        )
        return False

    def report(self, source: str, output: str) -> VerifyReport:
        return VerifyReport(source, output, tuple(self._outcome(name) for name in CHECKS))

    def _outcome(self, name: str) -> Check:
        failures = self._failures[name]
        if not failures and name in self._begun:
            return Check(name, True, CHECKS[name])
        if not failures:
            return Check(name, False, "not checked, because something that it needs is missing or damaged")
        more = len(failures) - MOST_DETAILS
        shown = "; ".join(failures[:MOST_DETAILS])
        return Check(name, False, shown + (f"; and {more} more" if more > 0 else ""))


def _short(value: Any, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
