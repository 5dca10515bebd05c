"""The errors of this library. Each states what was found, what was expected, and the remedy.

Every error has an exit code, and says in ``transient`` whether a retry can help. Operators turn
all other errors into ``AirflowFailException``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any


class PartitionOpsError(Exception):
    """The base class of all errors that this library raises.

    Attributes:
        problem: What went wrong, with file, type and position if they apply.
        found: What was found, or a list of several findings.
        expected: What was expected, or a list of several expectations.
        remedy: What the user can do about it, in one line or several.
        transient: Whether a retry can help.
        exit_code: Exit code of a command that ends with this error.
    """

    exit_code = 1
    transient = False

    def __init__(
        self,
        problem: str,
        *,
        found: object | None = None,
        expected: object | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        self.found = found
        self.expected = expected
        self.remedy = remedy
        super().__init__(self._message())

    def _message(self) -> str:
        parts = [self.problem]
        if self.found is not None:
            parts.append(f"Found: {'; '.join(message_lines(self.found))}.")
        if self.expected is not None:
            parts.append(f"Expected: {'; '.join(message_lines(self.expected))}.")
        if self.remedy is not None:
            parts.append(" ".join(self.remedy.splitlines()))
        return " ".join(part if part.endswith((".", "!", "?", ":")) else part + "." for part in parts)

    def lines(self) -> list[str]:
        """Return the error as lines for a terminal or a log: the problem, then one finding to a line."""
        lines = [self.problem]
        for name, described in (("found:", self.found), ("expected:", self.expected)):
            if described is not None:
                entries = message_lines(described)
                lines += [
                    f"  {label:10}{entry}" for label, entry in zip_longest([name], entries, fillvalue="")
                ]
        return lines if self.remedy is None else [*lines, *(f"  {one}" for one in self.remedy.splitlines())]

    def summary(self) -> str:
        """Return the problem and the first finding, as one line."""
        found = [] if self.found is None else message_lines(self.found)
        more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        return f"{self.problem}: {found[0]}{more}" if found else self.problem


def message_lines(described: object) -> list[str]:
    """Return what was found or expected as lines of text, one for each entry of a list."""
    return [str(entry) for entry in described] if isinstance(described, list) else [str(described)]


class UsageError(PartitionOpsError):
    """The command, an option or a combination of options is wrong."""

    exit_code = 2


class InvalidInputError(PartitionOpsError):
    """The input graph, an assignment or an artifact is missing, or violates its format."""

    exit_code = 3


class EngineError(PartitionOpsError):
    """A partitioning engine failed, or cannot handle the graph or the options."""


class NotEnoughRoomError(PartitionOpsError):
    """The estimated memory or disk space of a job exceeds what is available."""


class ConflictError(PartitionOpsError):
    """Another process works on the same graph, or has published it in the meantime."""


class QualityGateError(PartitionOpsError):
    """The partitions are worse than the quality gate allows."""


class StorageError(PartitionOpsError):
    """Storage failed permanently: missing bucket, missing permission, wrong credentials, full disk."""


class TransientStorageError(StorageError):
    """Storage failed temporarily: a timeout, a dropped connection, an overloaded server."""

    transient = True


class VerificationError(PartitionOpsError):
    """A finished output violates an invariant.

    Attributes:
        report: The outcome of every check, as a JSON object.
    """

    def __init__(
        self, problem: str, *, report: Mapping[str, Any], found: object, remedy: str | None = None
    ) -> None:
        super().__init__(problem, found=found, remedy=remedy)
        self.report = report


def some_of(names: Sequence[str], limit: int = 10) -> str:
    """Return the first names and the number of the others, for a message."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def clipped(text: str, limit: int) -> str:
    """Return a text, or its beginning with an ellipsis if it has more than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_of(names: Iterable[str], limit: int = 20) -> str:
    """Return the names to choose from, for the part of a message that says what was expected."""
    return f"one of {some_of([repr(name) for name in names], limit)}"
