"""What ``quality`` takes: the edges by source, and the model of the traffic."""

from partition_ops.artifacts.cost import LIBRARIES, PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.system.memory import planned_memory
from partition_ops.traffic.plan import MEMORY_SHARE, MOST_WORK, model_bytes, work

READ, PASS = 0.06e-6, 0.004e-6  # seconds an edge: to read and sort it, and to pass over it for a partition


def cost(config: QualityConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``quality``."""
    metadata, layers = sizes.metadata, len(config.sampling.fanouts)
    passes = work(metadata, layers, sizes.num_parts)
    if passes > MOST_WORK:  # there will be no figures of training
        return StageEstimate(stage="quality", memory=PYTHON, mapped=LIBRARIES // 2, output=SMALL, seconds=0.4)
    arrays = model_bytes(metadata, layers)
    files = arrays if arrays > planned_memory(None, MEMORY_SHARE, machine.memory) else 0
    return StageEstimate(
        stage="quality",
        memory=machine.base + 51 * sizes.nodes + machine.cores * sizes.block + arrays,
        mapped=LIBRARIES + files,
        output=SMALL,
        temporary=files,
        cache=machine.fetched(sum(sizes.edge_file_bytes)),
        seconds=0.6 + READ * sizes.edges + PASS * passes,
    )
