"""Problems of tables in words, and the error that has all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partition_ops.errors import InvalidInputError, clipped

SHOWN = 10
LONGEST = 60  # characters of a value in a message


@dataclass(frozen=True)
class Problem:
    """A kind of finding in a table."""

    check: str  # as in ``on_defect`` of graph.yaml
    about: str  # the node type, or the edge type as ``src:rel:dst``
    sentence: str  # what was found, with its count
    count: int  # number of rows or keys
    action: str  # ``fail``, ``drop``, ``add`` or ``warn``; of ``removed_nodes`` ``on_removed``
    examples: Sequence[str]  # the first of them, as sentences
    remedy: str = ""  # what a user can do

    def to_json(self) -> dict[str, Any]:
        names = ("check", "about", "sentence", "count", "action")
        return {**{name: getattr(self, name) for name in names}, "examples": list(self.examples)}


class RejectedTablesError(InvalidInputError):
    """Tables have findings whose action is ``fail``."""

    # ``graph_name``, and ``num_nodes`` and ``num_edges`` by type, as far as tables have them
    counts: Mapping[str, Any]
    problems: Sequence[Problem]  # all findings

    def findings(self) -> list[dict[str, Any]]:
        """Return all findings as JSON."""
        return [problem.to_json() for problem in self.problems]


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return clipped(text, LONGEST)


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
