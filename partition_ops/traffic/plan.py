"""Memory and work of the model of the traffic; nothing heavy is imported."""

from __future__ import annotations

from typing import NamedTuple

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.system.memory import planned_memory

MEMORY_SHARE = 0.25
MANY_BYTES = 1 << 29  # of the edges of a model: they are on the disk while an engine works
MOST_WORK = 5 * 10**10  # some minutes
NARROW = 2**31 - 1
MANY = 9  # partitions: with so many, passes note which nodes they can leave out
READ, PASS = 0.06e-6, 0.004e-6  # seconds an edge: to read and sort it, and to pass over it for a partition


def work(metadata: GraphMetadata, layers: int, num_parts: int) -> int:
    """Return what the time of the model grows with: edges times layers times partitions."""
    return sum(metadata.num_edges) * layers * num_parts


class _Sizes(NamedTuple):
    """What the sizes of the model's arrays depend on."""

    nodes: int
    edges: int
    ends: int  # nodes of the types at which edges end, by edge type
    groups: int  # at most
    wide: int  # 1 for numbers of 32 bits, 2 for 64

    @classmethod
    def of(cls, metadata: GraphMetadata) -> _Sizes:
        counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
        ends = [counts[one.dst] for one in metadata.edge_types]
        nodes, groups = sum(metadata.num_nodes), sum(map(min, ends, metadata.num_edges))
        wide = 1 if max(nodes, sum(ends)) <= NARROW else 2
        return cls(nodes, sum(metadata.num_edges), sum(ends), groups, wide)


def model_bytes(metadata: GraphMetadata, layers: int) -> int:
    """Return the bytes of the model's arrays, at most."""
    nodes, edges, ends, groups, wide = _Sizes.of(metadata)
    sorting = 12 * wide * edges + 24 * nodes + 12 * ends + 28 * groups
    return max(sorting, 4 * wide * edges + predicting_bytes(metadata, layers))


def kept_bytes(metadata: GraphMetadata) -> int:
    """Return the bytes of the edges by source, without an entry an edge, at most."""
    sizes = _Sizes.of(metadata)
    return 8 * sizes.nodes + 12 * sizes.groups


def predicting_bytes(metadata: GraphMetadata, layers: int, num_parts: int = MANY) -> int:
    """Return the bytes of the model's arrays without an entry an edge, once the edges are sorted, at most."""
    sizes = _Sizes.of(metadata)
    near = 8 * (layers + 1) if num_parts >= MANY else 0
    return (8 + 16 * (layers - 1) + near) * sizes.nodes + 44 * sizes.groups


def mapped_bytes(metadata: GraphMetadata, layers: int, memory: int | None = None) -> int:
    """Return `model_bytes` if the arrays become mapped files, as they take more than a quarter of memory.

    Otherwise, return 0. By default, the memory is that of this process.
    """
    arrays = model_bytes(metadata, layers)
    return arrays if arrays > planned_memory(None, MEMORY_SHARE, memory) else 0


def model_seconds(metadata: GraphMetadata, layers: int, num_parts: int) -> float:
    """Return the seconds, roughly, that reading the edges and the model itself take."""
    return READ * sum(metadata.num_edges) + PASS * work(metadata, layers, num_parts)
