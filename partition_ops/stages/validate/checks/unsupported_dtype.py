"""Features that are not made of numbers."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="unsupported_dtype",
    finding="a feature is not made of numbers",
    harm="DGL's files cannot hold it",
)
