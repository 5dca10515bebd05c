"""Memory and work of the model of the traffic; nothing heavy is imported."""

from __future__ import annotations

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.system.memory import planned_memory

MEMORY_SHARE = 0.25
MOST_WORK = 5 * 10**10  # some minutes
NARROW = 2**31 - 1
READ, PASS = 0.06e-6, 0.004e-6  # seconds an edge: to read and sort it, and to pass over it for a partition


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


def mapped_bytes(metadata: GraphMetadata, layers: int, memory: int | None = None) -> int:
    """Return `model_bytes` if the arrays become mapped files, as they take more than a quarter of memory.

    Otherwise, return 0. By default, the memory is that of this process.
    """
    arrays = model_bytes(metadata, layers)
    return arrays if arrays > planned_memory(None, MEMORY_SHARE, memory) else 0


def model_seconds(metadata: GraphMetadata, layers: int, num_parts: int) -> float:
    """Return the seconds, roughly, that reading the edges and the model itself take."""
    return READ * sum(metadata.num_edges) + PASS * work(metadata, layers, num_parts)
