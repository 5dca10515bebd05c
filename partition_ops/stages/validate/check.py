"""`Check`: what a check is called, what its findings mean and how it finds them; and `Defects`.

Nothing heavy is imported here, because the form and ``--help`` list the checks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from partition_ops.stages.validate.graph_facts import EdgeRows as EdgeRows
    from partition_ops.stages.validate.graph_facts import FeatureValues as FeatureValues
    from partition_ops.stages.validate.graph_facts import GraphFacts as GraphFacts
    from partition_ops.stages.validate.graph_facts import Mask as Mask
else:  # names for the annotations of checks
    EdgeRows = FeatureValues = GraphFacts = Mask = Any

ACTIONS = {
    "fail": "the run stops",
    "exclude": "the engine ignores the edges, and the partitions contain them",
    "drop": "the edges are left out of the output",
    "warn": "the report lists the findings, and the run continues",
}
"""Actions on findings; a check allows some of these."""

SEVERITIES = ("error", "warning", "information")
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """Findings of a check about one type or feature."""

    about: str  # node type, edge type as ``src:rel:dst``, feature as ``type/name``, or the graph's name
    # some of what was found, as `example` makes them; the report shows the first ten
    examples: Sequence[dict[str, Any]]
    count: int = 1  # how many there are
    # (n,) int64, ascending type-wise IDs of the edges, if a user can exclude or drop them
    edge_ids: npt.NDArray[np.int64] | None = None


Findings = Iterable[Finding]


def example(sentence: str, **place: Any) -> dict[str, Any]:
    """Return an example for the report.

    Args:
        sentence: What was found, and where.
        place: The same for machines: ``file``, ``chunk``, ``row``, ``line``, ``node_id``, ``edge_id``,
            ``src``, ``dst``.
    """
    return {**place, "sentence": sentence}


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of the stage ``validate``.

    It finds something by one of the five functions; validation reads every file once, and calls the functions
    of all checks with what it reads. Functions other than ``graph`` are called from several threads.
    """

    name: str  # as in the report, the options, the form and the metrics
    severity: str = "error"  # ``error``, ``warning`` or ``information``
    # what a user may choose to do about findings, the default first. If it is only ``fail``, later stages
    # could not work with what was found
    actions: tuple[str, ...] = ("fail",)
    finding: str  # what a finding is, as a clause: "an edge begins and ends at the same node"
    harm: str  # what goes wrong without the check
    title: str = ""  # title of its field in the form, if there is a choice; made of the name if left out
    # takes the fields of a row of a CSV file of edges, and returns whether the row is wrong. It is called for
    # files with a row that is not two integers. A wrong row is not an edge
    text_row: Callable[[Sequence[str]], bool] | None = None
    # takes rows as they are in a file, and returns a mask of the wrong ones, or None if there is none. A
    # wrong row is not an edge
    ids: Callable[[EdgeRows], Mask | None] | None = None
    # takes edges, and returns a mask of its findings, or None if there is none
    edges: Callable[[EdgeRows], Mask | None] | None = None
    # takes rows of a feature, and returns a mask of its findings with the shape of the values, or None if
    # there is none
    feature_values: Callable[[FeatureValues], Mask | None] | None = None
    # takes the facts of the whole graph once all files are read, and yields its findings
    graph: Callable[[GraphFacts], Iterable[Finding]] | None = None
    # tables of metrics with a column for its findings: ``graph``, ``edge_types`` or ``features``; made of the
    # functions if left out
    counted_in: tuple[str, ...] = ()
    # by table, two columns that are equal if nothing is wrong
    equal_columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES or not self.actions or not set(self.actions) <= set(ACTIONS):
            raise ValueError(
                f"check {self.name!r} has severity {self.severity!r} and actions {self.actions};"
                f" known are {', '.join(SEVERITIES)} and {', '.join(ACTIONS)}"
            )

    @property
    def form_title(self) -> str:
        """Title of its field in the form."""
        return self.title or f"On {self.name.replace('_', ' ')}"

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables of metrics with a column for its findings."""
        if self.counted_in:
            return self.counted_in
        of_edges = ("edge_types",) if self.text_row or self.ids or self.edges else ()
        return of_edges + (("features",) if self.feature_values else ())

    @property
    def affects_edges(self) -> bool:
        """Whether a user can exclude or drop the edges that it finds."""
        return "exclude" in self.actions or "drop" in self.actions


@dataclass
class Defect:
    """The findings of one check about one type or feature, as the report has them."""

    check: str  # name of the check
    name: str  # node type, edge type as ``src:rel:dst``, feature as ``type/name``, or the graph's name
    count: int = 0  # how many there are
    # the first ten: file, row and IDs, if they have them, and a sentence
    examples: list[dict[str, Any]] = field(default_factory=list)
    action: str = "fail"  # what is done about them

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

    def number_rows(self, feature: str, field: str, starts: Sequence[int]) -> None:
        """Add the IDs of nodes or edges to the examples that are values of a feature.

        Args:
            feature: As ``type/name``.
            field: ``node_id`` or ``edge_id``.
            starts: By chunk, the type-wise ID of its first row.
        """
        for (_, name), defect in self._found.items():
            for example in defect.examples if name == feature else ():
                if "row" in example:
                    example[field] = starts[example["chunk"]] + example["row"]

    def count(self, check: str, name: str) -> int:
        defect = self._found.get((check, name))
        return defect.count if defect else 0

    def all(self) -> list[Defect]:
        """Return every defect, in an order that does not depend on the threads."""
        return [self._found[key] for key in sorted(self._found)]
