"""What ``prepare`` takes: edges split by range and sorted."""

from __future__ import annotations

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate
from partition_ops.stages.prepare.options import ROW_BITS, PrepareConfig, range_shift

BLOCK_EDGES = 3 << 19  # the edges of a block of text, or of a group of Parquet


def cost(config: PrepareConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``prepare``, which the engine ``random`` does without."""
    graph = sizes.prepared_bytes
    half_edge = (2 if range_shift(sizes.nodes) <= ROW_BITS else 4) + sizes.id_bytes
    dealt = machine.cores * (sizes.block + 2 * half_edge * min(BLOCK_EDGES, sizes.largest_chunk()))
    ranges = range_half_edges(sizes)
    merged = 2 * half_edge * sum(ranges[: machine.cores])
    merged += 8 * sum(ranges[: machine.cores + 1])
    return StageEstimate(
        stage="prepare",
        memory=machine.base + 32 * sizes.nodes + max(dealt, merged),
        mapped=LIBRARIES,
        output=graph + 8 * sizes.nodes,
        temporary=half_edge * sizes.half_edges,
        cache=machine.fetched(sum(sizes.edge_file_bytes)) + machine.fetched_back(graph),
        seconds=1.0 + sizes.edges * 0.06e-6,
        remedies=("Use --engine random, which needs no prepared graph.",),
    )


def range_half_edges(sizes: Sizes) -> list[int]:
    """Return the half-edges of each range of nodes that ``prepare`` sorts, most first.

    All nodes of a type count as equal; types differ by their number of edges a node.
    """
    metadata = sizes.metadata
    ends = dict.fromkeys(metadata.node_types, 0)
    for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
        ends[edge_type.src] += count
        ends[edge_type.dst] += count
    width = 1 << range_shift(sizes.nodes)
    ranges = [0.0] * (sizes.nodes // width + 1)
    for name, begin, nodes in zip(
        metadata.node_types, metadata.node_offsets, metadata.num_nodes, strict=False
    ):
        density, at, end = ends[name] / max(nodes, 1), begin, begin + nodes
        while at < end:
            upto = min(end, (at // width + 1) * width)
            ranges[at // width] += density * (upto - at)
            at = upto
    return sorted(map(int, ranges), reverse=True)
