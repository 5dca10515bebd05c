"""Rows of edges without one of their IDs."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="null_ids",
    finding="an ID is missing",
    harm="the row is no edge, and the IDs of the edges after it shift",
)
