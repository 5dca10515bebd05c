"""What ``publish`` takes."""

from partition_ops.artifacts.cost import PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.publish.options import PublishConfig


def cost(config: PublishConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``publish``."""
    return StageEstimate(memory=PYTHON, output=SMALL, seconds=0.3)
