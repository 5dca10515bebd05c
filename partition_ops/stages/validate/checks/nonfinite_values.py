"""Features that hold NaN or infinity."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="nonfinite_values",
    severity="warning",
    actions=("warn", "fail"),
    finding="a floating-point feature holds NaN or infinity",
    harm="the loss becomes NaN after the first batch that meets one",
    title="On NaN and infinity in features",
)
