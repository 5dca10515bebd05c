"""What ``cache`` takes: the edges by source, the model of the traffic, and the cached rows."""

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.system.memory import planned_memory
from partition_ops.traffic.plan import MEMORY_SHARE, model_bytes, work

READ, PASS = 0.06e-6, 0.004e-6  # seconds an edge: to read and sort it, and to pass over it for a partition
WRITE = 1e-9  # seconds a byte


def cost(config: CacheConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``cache``."""
    metadata, layers = sizes.metadata, len(config.sampling.fanouts)
    arrays = model_bytes(metadata, layers)
    files = arrays if arrays > planned_memory(None, MEMORY_SHARE, machine.memory) else 0
    rows = int(config.cache_share * sum(map(sizes.decoded, metadata.node_features)))
    return StageEstimate(
        stage="cache",
        memory=machine.base + 63 * sizes.nodes + machine.cores * sizes.block + arrays,
        mapped=LIBRARIES + files,
        output=rows,
        temporary=files,
        cache=machine.fetched(sum(sizes.edge_file_bytes)),
        seconds=0.6 + READ * sizes.edges + PASS * work(metadata, layers, sizes.num_parts) + WRITE * rows,
    )
