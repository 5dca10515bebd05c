"""What ``validate`` takes: the search for duplicates, up to its limit, and counts of the nodes."""

from __future__ import annotations

from partition_ops.artifacts.cost import LIBRARIES, MIB, SMALL, Machine, Sizes, StageEstimate
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.validate.options import MEMORY_SHARE, ValidateConfig
from partition_ops.system.memory import planned_memory

PAIR_BYTES, PAIR_SORTED, PAIR_BUDGET = 8, 16, 24  # an edge: its key, the copy to sort, both
PAIR_FILE = 16  # an edge in a bucket on the disk


def cost(config: ValidateConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``validate``: the search for duplicates, up to its limit, and counts of the nodes."""
    pairs = _pair_edges(sizes.metadata)
    budget = planned_memory(config.memory, MEMORY_SHARE, machine.memory)
    inside = sizes.edges * PAIR_BUDGET <= budget
    blocks = machine.cores * sizes.block  # they are read before pairs are sorted
    sorting = max(blocks, PAIR_SORTED * sum(pairs[: machine.cores]))
    sought = PAIR_BYTES * sizes.edges + sorting if inside else budget + blocks
    mapped = min(sizes.mapped_feature_bytes, machine.cores * 16 * MIB)
    held = machine.base + 24 * sizes.nodes + sought
    return StageEstimate(
        stage="validate",
        memory=held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=SMALL,
        temporary=0 if inside else PAIR_FILE * sizes.edges,
        cache=machine.fetched(sizes.input_bytes),
        seconds=1.2 + sizes.edges * 0.07e-6 + sizes.input_bytes / 1.5e9 + (5 if config.data_docs else 0),
    )


def _pair_edges(metadata: GraphMetadata) -> list[int]:
    """Return the edges of each pair of node types, most first; validation finds duplicates by pair."""
    groups: dict[frozenset[str], int] = {}
    for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
        ends = frozenset((edge_type.src, edge_type.dst))
        groups[ends] = groups.get(ends, 0) + count
    return sorted(groups.values(), reverse=True)
