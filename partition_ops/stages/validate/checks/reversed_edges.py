"""Pairs of nodes with edges in both directions."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="reversed_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="two nodes have edges in both directions between them",
    harm="nothing: the partitioner counts them as one edge",
    title="On edges in both directions",
)
