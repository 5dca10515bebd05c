"""The ranges of IDs of each type, as the schema file of the DGL guide has them (chapter 7.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from partition_ops.chunked.metadata import GraphMetadata

GraphSchema = dict[str, dict[str, list[int]]]


def schema_of(metadata: GraphMetadata, *, plain: bool = False) -> GraphSchema:
    """Return half-open homogeneous ID ranges of every node type and edge type, in type ID order.

    Args:
        metadata: The graph's metadata.
        plain: Name an edge type by its relation alone, as the guide does, if no other edge type has the same
            relation, and it has edges from which a reader can learn the node types; else ``src:rel:dst``.
    """
    relations = Counter(edge_type.rel for edge_type in metadata.edge_types)
    edge_types = [
        edge_type.rel if plain and count and relations[edge_type.rel] == 1 else str(edge_type)
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True)
    ]
    return {
        "nid": _ranges(metadata.node_types, metadata.node_offsets),
        "eid": _ranges(edge_types, metadata.edge_offsets),
    }


def _ranges(names: Iterable[str], offsets: Sequence[int]) -> dict[str, list[int]]:
    return {name: list(ends) for name, ends in zip(names, pairwise(offsets), strict=True)}
