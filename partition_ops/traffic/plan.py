"""Memory and work of the model of the traffic; nothing heavy is imported."""

from __future__ import annotations

from partition_ops.chunked.metadata import GraphMetadata

MEMORY_SHARE = 0.25
MOST_WORK = 5 * 10**10  # some minutes
NARROW = 2**31 - 1


def work(metadata: GraphMetadata, layers: int, num_parts: int) -> int:
    """Return what the time of the model grows with: edges times layers times partitions."""
    return sum(metadata.num_edges) * layers * num_parts


def model_bytes(metadata: GraphMetadata, layers: int) -> int:
    """Return the bytes of the model's arrays, at most."""
    nodes, edges = sum(metadata.num_nodes), sum(metadata.num_edges)
    counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    ends = [counts[one.dst] for one in metadata.edge_types]
    groups = sum(map(min, ends, metadata.num_edges))
    wide = 1 if max(nodes, sum(ends)) <= NARROW else 2
    sorting = 12 * wide * edges + 24 * nodes + 12 * sum(ends) + 28 * groups
    predicting = 4 * wide * edges + (8 + 16 * (layers - 1) + 8 * (layers + 1)) * nodes + 44 * groups
    return max(sorting, predicting)
