"""Chunks of a feature that do not fit together."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="layout_mismatches",
    finding="chunks of a feature differ in dtype or in the shape of a row",
    harm="values are converted silently, or the run stops hours later",
)
