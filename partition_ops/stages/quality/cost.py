"""What ``quality`` takes: the edges by source, and the model of the traffic."""

from partition_ops.artifacts.cost import LIBRARIES, PYTHON, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.traffic.plan import MOST_WORK, mapped_bytes, model_bytes, model_seconds, work


def cost(config: QualityConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``quality``."""
    metadata, layers = sizes.metadata, len(config.sampling.fanouts)
    if work(metadata, layers, sizes.num_parts) > MOST_WORK:  # there will be no figures of training
        return StageEstimate(memory=PYTHON, mapped=LIBRARIES // 2, output=SMALL, seconds=0.4)
    arrays = model_bytes(metadata, layers)
    files = mapped_bytes(metadata, layers, machine.memory)
    return StageEstimate(
        memory=machine.base + 51 * sizes.nodes + machine.cores * sizes.block + arrays,
        mapped=LIBRARIES + files,
        output=SMALL,
        temporary=files,
        cache=machine.fetched(sum(sizes.edge_file_bytes)),
        seconds=0.6 + model_seconds(metadata, layers, sizes.num_parts),
    )
