"""Edges that repeat an earlier edge of their type."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="duplicate_edges",
    actions=("fail", "exclude", "drop", "warn"),
    finding="an edge has the same source and destination as an earlier edge of its type",
    harm="METIS and ParMETIS corrupt memory or fail on them; messages are counted twice in training",
)
