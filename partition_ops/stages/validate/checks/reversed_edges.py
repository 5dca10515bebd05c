"""Pairs of nodes with edges in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import GraphFacts


def find(facts: GraphFacts) -> Iterable[Finding]:
    sentence = f"{facts.reversed:,} pairs of nodes have edges in both directions"
    yield Finding(facts.metadata.graph_name, [example(sentence)], facts.reversed)


CHECK = Check(
    name="reversed_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="two nodes have edges in both directions between them",
    harm="nothing: the engine counts them as one edge",
    title="On edges in both directions",
    graph=find,
    counted_in=("graph",),
)
