"""`Defect`: the findings of one check about one type, counted, with the first ten as examples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 10


@dataclass
class Defect:
    """The findings of one check about one type or feature, as the report has them.

    Attributes:
        check: Name of the check.
        name: Node type, edge type as ``src:rel:dst``, feature as ``type/name``, or the graph's name.
        count: How many there are.
        examples: The first ten: file, row and IDs, if they have them, and a sentence.
        action: What is done about them.
    """

    check: str
    name: str
    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    action: str = "fail"

    def sentence(self) -> str:
        """Return one line: the count and the first example."""
        first = self.examples[0]["sentence"] if self.examples else ""
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return f"{self.count:,} {self.check} of {self.name!r}: {first}{more}"

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Defects:
    """Collects findings from several threads; the examples kept are the first in order of file and row."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Defect] = {}
        self._lock = threading.Lock()

    def add(self, check: str, name: str, count: int, examples: Iterable[dict[str, Any]]) -> None:
        """Add findings.

        Args:
            check: Name of the check.
            name: Type or feature.
            count: How many.
            examples: Some of them; ``chunk`` and ``row``, if they have them, set their order.
        """
        if count == 0:
            return
        with self._lock:
            defect = self._found.setdefault((check, name), Defect(check, name))
            defect.count += count
            found = [*defect.examples, *examples]
            found.sort(key=lambda example: (example.get("chunk", 0), example.get("row", 0)))
            defect.examples = found[:EXAMPLES]

    def number_edges(self, edge_id: Callable[[str, int, int], int]) -> None:
        """Add edge IDs to the examples that are edges.

        Args:
            edge_id: Returns the type-wise ID of an edge from edge type, chunk and row.
        """
        for defect in self._found.values():
            for example in defect.examples:
                if "src" in example and "edge_id" not in example:
                    example["edge_id"] = edge_id(defect.name, example["chunk"], example["row"])
                    example["sentence"] = f"edge {example['edge_id']} {example['sentence']}"

    def count(self, check: str, name: str) -> int:
        defect = self._found.get((check, name))
        return defect.count if defect else 0

    def all(self) -> list[Defect]:
        """Return every defect, in an order that does not depend on the threads."""
        return [self._found[key] for key in sorted(self._found)]
