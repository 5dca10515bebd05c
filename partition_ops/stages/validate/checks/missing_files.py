"""Files that the metadata names and that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import GraphFacts


def find(facts: GraphFacts) -> Iterable[Finding]:
    for name, index, key, error in facts.unread_files():
        if error is None:
            yield Finding(name, [example(f"no file {key}", file=key, chunk=index)])


CHECK = Check(
    name="missing_files",
    finding="a file that the metadata names does not exist",
    harm="a later stage fails",
    graph=find,
    counted_in=("edge_types", "features"),
)
