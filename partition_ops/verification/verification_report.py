"""The report of ``verify``, and the list of the checks that every output format has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from partition_ops.errors import VerificationError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format

REPORT_VERSION = 1
MOST_DETAILS = 5  # details of one check in the report; the rest is counted

CHECKS = {
    "schema": "schema/<graph>.json has the homogeneous ID ranges of the input's types",
    "assignment": "every node has one partition, the same in the text files and in their binary copies",
    "configuration": "the book and the formats' own configuration describe this graph and its partitions",
    "node-ranges": "the node ranges tile the new IDs, by partition and by type, with the assigned counts",
    "edge-ranges": "the edge ranges tile the new IDs, by partition and by type, with the counts of in-edges",
    "node-id-maps": "node ID maps are bijections, sorted by new ID, that agree with ranges and assignment",
    "edge-id-maps": "edge ID maps list each edge not dropped once, in the partition of its destination",
    "order": "nodes and edges of one type in one partition are in the order of their original IDs",
    "fields": "every format has exactly its columns of nodes and edges, with their dtypes",
    "inner-nodes": "the inner nodes come first and are those of the assignment, with their IDs and types",
    "halo-nodes": "the halo nodes are exactly those within the hops, or where stored out-edges end",
    "node-owners": "'part_id' is the partition of every local node",
    "edge-ids": "the edges of a partition have the IDs and types of the edge ID map",
    "edge-ends": "every edge joins the nodes that it joins in the input",
    "every-node-once": "every node of the input is an inner node of exactly one partition",
    "every-edge-once": "every edge of the input that is not dropped is in exactly one partition",
    "dropped-edges": "the dropped edges are exactly those with the action drop, and they are listed",
    "original-ids": "the original IDs of inner nodes and own edges agree with the ID maps",
    "node-features": "node features have the dtype, shape and bits of the input's rows; none lost or extra",
    "edge-features": "edge features have the dtype, shape and bits of the input's rows; none lost or extra",
    "negatives": "idmap/negatives/ has the negatives of the input, with the new IDs of their ends",
    "cached-rows": "each partition caches the rows that its trainer is expected to read most",
    "figures": "counts, shares and checksums in the documents of the output are right",
    "migration": "assignment/migration.json lists the nodes that moved since the previous run, if any",
    "carry-over": "the carry-over maps map every old node's new ID in the previous run to its new ID now",
    "manifest-artifacts": "the manifest lists every artifact with its size and SHA-256",
    "manifest-input": "the manifest's input section matches the input",
}


@dataclass(frozen=True)
class Check:
    """The outcome of one check."""

    name: str  # name of the check
    passed: bool | None  # whether it found no failure; None if it needs a package that is not installed
    detail: str  # what was checked, or the first offending values, or what is not installed

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the check in the report."""
        return dict(vars(self))


BROKEN_OUTPUT = (
    "Do not train on it. Remove the artifacts that are named and run the job again, which rebuilds them; if"
    " that does not help, report it."
)
CHANGED_INPUT = (
    "The output is as it was written, but the input is not as the manifest lists it: it has changed since,"
    " and other checks compare with it. Run the job again for the input as it is now, or verify the output"
    " with the input as it was. Do not train on it before that."
)


@dataclass(frozen=True)
class VerifyReport:
    """The outcome of all checks: those of `CHECKS`, then those that only one output format has.

    Attributes:
        input: URI of the input.
        output: URI of the output.
        checks: The outcomes.
    """

    input: str
    output: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.passed is False)

    @property
    def unchecked(self) -> tuple[Check, ...]:
        """The checks that need a package which is not installed."""
        return tuple(check for check in self.checks if check.passed is None)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def raise_for_failures(self) -> None:
        """Raise an error if a check failed; `summary` has the details.

        Raises:
            VerificationError: Names the checks that failed.
        """
        if self.failed:
            failed = {check.name for check in self.failed}
            changed = "manifest-input" in failed and "manifest-artifacts" not in failed
            raise VerificationError(
                f"{self.output} breaks {len(failed)} of {len(self.checks)} invariants",
                report=self.to_json(),
                found=", ".join(check.name for check in self.failed),
                remedy=CHANGED_INPUT if changed else BROKEN_OUTPUT,
            )

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        checks = [check.to_json() for check in self.checks]
        return {
            "version": REPORT_VERSION,
            "input": self.input,
            "output": self.output,
            "passed": self.passed,
            "checks": checks,
        }

    def summary(self) -> str:
        """Return a line for every check, and one for all of them."""
        words = {True: "ok  ", False: "FAIL", None: "--  "}
        lines = [f"{words[c.passed]}  {c.name:<18}  {c.detail}" for c in self.checks]
        good = len(self.checks) - len(self.failed) - len(self.unchecked)
        rest = f", {len(self.unchecked)} could not run" if self.unchecked else ""
        return "\n".join([*lines, f"{good} of {len(self.checks)} checks passed{rest} for {self.output}"])


def all_checks(formats: Iterable[Format]) -> dict[str, str]:
    """Return what must hold by name of the check: `CHECKS`, then the checks of some formats alone."""
    own = {name: statement for form in formats for name, statement in form.checks.items()}
    return {**CHECKS, **own}


def make_report(findings: Findings, checks: Mapping[str, str], source: str, output: str) -> VerifyReport:
    """Return the report of what some checks found. It shows each message once: other checks refer to it.

    Args:
        findings: The failures.
        checks: What must hold, by name of the check.
        source: URI of the input.
        output: URI of the output.
    """
    outcomes = []
    shown_by: dict[str, str] = {}
    for name, statement in checks.items():
        failures, begun = [*dict.fromkeys(findings.failures(name))], findings.has_begun(name)
        detail = statement if begun else "not checked, because something that it needs is missing or damaged"
        if failures:
            own = [one for one in failures if one not in shown_by]
            others = dict.fromkeys(f"see the check {shown_by[one]!r}" for one in failures if one in shown_by)
            first, more = own[:MOST_DETAILS], len(own) - MOST_DETAILS
            detail = "; ".join([*first, *([f"and {more} more"] if more > 0 else []), *others])
            shown_by |= dict.fromkeys(first, name)
        missing = None if failures else findings.unchecked(name)
        if missing is not None:
            outcomes.append(Check(name, None, f"not checked: {missing}"))
        else:
            outcomes.append(Check(name, begun and not failures, detail))
    return VerifyReport(source, output, tuple(outcomes))
