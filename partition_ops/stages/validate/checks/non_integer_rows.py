"""Rows of edges with an ID that is not an integer."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="non_integer_rows",
    finding="an ID is not an integer of 64 bits",
    harm="the row is no edge, and the IDs of the edges after it shift",
)
