"""What ``idmap`` takes: Parquet stores gaps between ascending IDs, with as many bits as they need."""

from __future__ import annotations

from partition_ops.artifacts.cost import LIBRARIES, MIB, PYTHON, Machine, Sizes, StageEstimate
from partition_ops.stages.idmap.options import IdMapConfig

IDMAP = 45 * MIB  # pyarrow without readers


def cost(config: IdMapConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``idmap``."""
    rows = sizes.nodes + sizes.edges
    bits = 3 + max(sizes.num_parts - 1, 1).bit_length()
    output = rows * bits // 8
    return StageEstimate(
        memory=PYTHON + IDMAP + machine.cores * min(70 * MIB, 10 * rows),
        mapped=LIBRARIES // 2,
        output=output,
        cache=machine.fetched_back(8 * rows + output),
        seconds=0.5 + rows * 0.018e-6,
    )
