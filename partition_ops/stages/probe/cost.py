"""What ``probe`` takes: the graph in the cache, which is mapped, and the batches."""

from partition_ops.artifacts.cost import MIB, SMALL, Machine, Sizes, StageEstimate
from partition_ops.stages.probe.options import ProbeConfig

SAMPLER = 200 * MIB  # the process, and a batch
BATCH_SECONDS = 0.02  # with 1,024 seeds and the default fanouts


def cost(config: ProbeConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``probe``."""
    metadata = sizes.metadata
    nodes = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    cache = 32 * sizes.edges + sum(8 * nodes[one.dst] for one in metadata.edge_types)
    mapped = cache + sum(map(sizes.decoded, sizes.metadata.node_features))
    parts = sizes.num_parts if config.parts is None else len(config.parts)
    batches = min(config.batches * parts, sizes.nodes // config.sampling.batch_size + parts)
    return StageEstimate(
        memory=SAMPLER + 24 * max(metadata.num_nodes, default=0) + mapped,
        mapped=mapped,
        output=SMALL,
        temporary=cache,
        seconds=1.0 + BATCH_SECONDS * batches + 0.5e-6 * sizes.edges,
        note="Mapped files count whole; the batches read a part of them.",
    )
