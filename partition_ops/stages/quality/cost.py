"""What ``quality`` takes."""

from partition_ops.artifacts.cost import LIBRARIES, PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.quality.options import QualityConfig


def cost(config: QualityConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``quality``."""
    return StageEstimate(stage="quality", memory=PYTHON, mapped=LIBRARIES // 2, output=SMALL, seconds=0.4)
