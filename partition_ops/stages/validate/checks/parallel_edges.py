"""Edges of several types between the same two nodes."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="parallel_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="edges of several types join the same two nodes in the same direction",
    harm="nothing: the partitioner counts them as one edge",
    title="On edges of several types",
)
