"""Features that are not made of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import GraphFacts


def find(facts: GraphFacts) -> Iterable[Finding]:
    for name, feature in facts.features.items():
        for file in feature.files:
            if file.layout is not None and file.index not in feature.layouts:
                found = f"{file.layout.dtype} in {feature.where(file.index)}"
                yield Finding(name, [example(found, file=file.key, chunk=file.index)])


CHECK = Check(
    name="unsupported_dtype",
    finding="a feature is not made of numbers",
    harm="DGL's files cannot hold it",
    graph=find,
    counted_in=("features",),
)
