"""Edges of several types between the same two nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import GraphFacts


def find(facts: GraphFacts) -> Iterable[Finding]:
    sentence = f"{facts.parallel:,} edges join the same two nodes as an edge of another type"
    yield Finding(facts.metadata.graph_name, [example(sentence)], facts.parallel)


CHECK = Check(
    name="parallel_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="edges of several types join the same two nodes in the same direction",
    harm="nothing: the engine counts them as one edge",
    title="On edges of several types",
    graph=find,
    counted_in=("graph",),
)
