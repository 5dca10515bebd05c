"""Features that hold NaN or infinity."""

from partition_ops.stages.validate.check import Check, FeatureValues, Mask


def find(block: FeatureValues) -> Mask | None:
    import numpy as np

    return ~np.isfinite(block.values) if block.values.dtype.kind == "f" else None


CHECK = Check(
    name="nonfinite_values",
    severity="warning",
    actions=("warn", "fail"),
    finding="a floating-point feature holds NaN or infinity",
    harm="the loss becomes NaN after the first batch that meets one",
    title="On NaN and infinity in features",
    feature_values=find,
)
