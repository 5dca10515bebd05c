"""Files that cannot be read in their format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import GraphFacts


def find(facts: GraphFacts) -> Iterable[Finding]:
    for name, index, key, error in facts.unread_files():
        if error is not None:
            yield Finding(name, [example(error, file=key, chunk=index)])


CHECK = Check(
    name="unreadable_files",
    finding="a file cannot be read in its format",
    harm="a later stage fails",
    graph=find,
    counted_in=("edge_types", "features"),
)
