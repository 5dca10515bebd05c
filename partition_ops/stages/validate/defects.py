"""What a check found: counted whole, shown by its first examples."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.validate.places import Places

EXAMPLES = 10


@dataclass
class Defect:
    """The findings of one check about one type or feature.

    Attributes:
        check: Name of the check.
        name: Node type, edge type as ``src:rel:dst``, or feature as ``type/name``.
        count: How many there are.
        examples: The first ten: file, row, IDs, as far as they have them, and a sentence.
        action: What is done about them.
    """

    check: str
    name: str
    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    action: str = "fail"

    def sentence(self) -> str:
        """One line: the count and the first example."""
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
        """Add some findings.

        Args:
            check: Name of the check.
            name: Type or feature.
            count: How many.
            examples: Some of them, with ``chunk`` and ``row`` to order them by, where they have them.
        """
        if count == 0:
            return
        with self._lock:
            defect = self._found.setdefault((check, name), Defect(check, name))
            defect.count += count
            found = [*defect.examples, *examples]
            found.sort(key=lambda example: (example.get("chunk", 0), example.get("row", 0)))
            defect.examples = found[:EXAMPLES]

    def number_edges(self, metadata: GraphMetadata, places: Places) -> None:
        """Complete the examples that are edges by their IDs, which are known once all chunks are counted."""
        type_ids = {str(edge_type): type_id for type_id, edge_type in enumerate(metadata.edge_types)}
        for defect in self._found.values():
            for example in defect.examples:
                if "src" in example and "edge_id" not in example:
                    start = places.start(type_ids[defect.name], example["chunk"])
                    example["edge_id"] = start + example["row"]
                    example["sentence"] = f"edge {example['edge_id']} {example['sentence']}"

    def count(self, check: str, name: str) -> int:
        defect = self._found.get((check, name))
        return defect.count if defect else 0

    def all(self) -> list[Defect]:
        """Every defect, in an order that does not depend on the threads."""
        return [self._found[key] for key in sorted(self._found)]
