"""Errors that say what was found, what was expected and what to do.

Every error knows its exit code and whether trying again can help (``transient``): an operator turns
those that a retry cannot help into ``AirflowFailException``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class PartitionOpsError(Exception):
    """Base of every error that this library raises on purpose.

    Attributes:
        problem: What went wrong, with the file, the type and the position where that applies.
        found: What was there; a list where there are several things.
        expected: What should have been there; likewise.
        remedy: What the user can do about it.
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
            parts.append(f"Found: {'; '.join(lines(self.found))}.")
        if self.expected is not None:
            parts.append(f"Expected: {'; '.join(lines(self.expected))}.")
        if self.remedy is not None:
            parts.append(self.remedy)
        return " ".join(part if part.endswith((".", "!", "?", ":")) else part + "." for part in parts)


def lines(described: object) -> list[str]:
    """What was found or expected, a line for each thing."""
    return [str(one) for one in described] if isinstance(described, list) else [str(described)]


class UsageError(PartitionOpsError):
    """The command, an option or a combination of options is wrong."""

    exit_code = 2


class InvalidInputError(PartitionOpsError):
    """The input graph, an assignment or an artifact is not what its format says."""

    exit_code = 3


class EngineError(PartitionOpsError):
    """A partitioning engine could not do what it was asked."""


class NotEnoughRoomError(PartitionOpsError):
    """A job needs more memory or disk than there is, as far as that can be estimated before it is begun."""


class ConflictError(PartitionOpsError):
    """Somebody else works on the same graph, or has published it in the meantime."""


class QualityGateError(PartitionOpsError):
    """Partitions are there, and worse than what was allowed."""


class StorageError(PartitionOpsError):
    """Storage refused, and would refuse again: no such bucket, no permission, wrong credentials."""


class TransientStorageError(StorageError):
    """Storage failed in a way that may pass: a time-out, a dropped connection, an overloaded server."""

    transient = True


class VerificationError(PartitionOpsError):
    """A finished output breaks an invariant.

    Attributes:
        report: The outcome of every check, as JSON.
    """

    def __init__(
        self, problem: str, *, report: Mapping[str, Any], found: object, remedy: str | None = None
    ) -> None:
        super().__init__(problem, found=found, remedy=remedy)
        self.report = report


def some_of(names: Sequence[str], limit: int = 10) -> str:
    """The first names, for a message, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def one_of(names: Iterable[str], limit: int = 20) -> str:
    """Return the names to choose from, for the part of a message that says what was expected."""
    return f"one of {some_of([repr(name) for name in names], limit)}"
