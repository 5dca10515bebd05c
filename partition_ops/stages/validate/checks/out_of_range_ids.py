"""Edges that end outside the nodes of their types."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="out_of_range_ids",
    finding="an ID is below zero or not below the number of nodes of its type",
    harm="with homogeneous IDs the edge would end at a node of another type",
)
