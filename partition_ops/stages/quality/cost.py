"""What ``quality`` takes."""

from partition_ops.artifacts.cost import LIBRARIES, MIB, PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.quality.options import QualityConfig

CHARTS = 70 * MIB  # matplotlib


def cost(config: QualityConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``quality``."""
    return StageEstimate(
        stage="quality", memory=PYTHON + CHARTS, mapped=LIBRARIES // 2, output=SMALL, seconds=1.1
    )
