"""What ``schema`` takes."""

from partition_ops.artifacts.cost import PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.schema.options import SchemaConfig


def cost(config: SchemaConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``schema``."""
    return StageEstimate(memory=PYTHON, output=SMALL >> 8, seconds=0.1)
