"""What ``cache`` takes: the edges by source, the model of the traffic, and the cached rows."""

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.traffic.plan import mapped_bytes, model_bytes, model_seconds

WRITE = 1e-9  # seconds a byte


def cost(config: CacheConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``cache``."""
    metadata, layers = sizes.metadata, len(config.sampling.fanouts)
    arrays = model_bytes(metadata, layers)
    files = mapped_bytes(metadata, layers, machine.memory)
    rows = int(config.cache_share * sum(map(sizes.decoded, metadata.node_features)))
    return StageEstimate(
        memory=machine.base + 63 * sizes.nodes + machine.cores * sizes.block + arrays,
        mapped=LIBRARIES + files,
        output=rows,
        temporary=files,
        cache=machine.fetched(sum(sizes.edge_file_bytes)),
        seconds=0.6 + model_seconds(metadata, layers, sizes.num_parts) + WRITE * rows,
    )
