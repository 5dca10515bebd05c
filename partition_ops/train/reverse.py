"""Leaving out the reverse of the edges that are to be predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from partition_ops.train.graph import PartitionedGraph


class ReverseTypes:
    """What ``exclude="reverse_types"`` means, for new IDs too; give it to ``as_edge_prediction_sampler``.

    DGL's own ``reverse_types`` takes edge e of one type for the reverse of edge e of the other. That holds
    for original IDs, if the input was made so. It does not hold for new IDs: an edge is where its
    destination is, and its reverse elsewhere. This goes through the ID maps.

    Args:
        graph: The graph.
        reverse_etypes: The reverse edge type of each, names or triples. Edge e of one is, in the input, the
            reverse of edge e of the other.
    """

    def __init__(self, graph: PartitionedGraph, reverse_etypes: Mapping[Any, Any]) -> None:
        self._graph = graph
        canonical = graph.to_canonical_etype
        self._reverse = {canonical(one): canonical(other) for one, other in reverse_etypes.items()}

    def __call__(self, edges: Mapping[Any, Any]) -> dict[Any, Any]:
        """The edges themselves and their reverses.

        Args:
            edges: Type-wise edge IDs by edge type, of the kind that the graph has.
        """
        found: dict[Any, Any] = {}
        for name, ids in edges.items():
            etype = self._graph.to_canonical_etype(name)
            found.setdefault(etype, []).append(ids)
            if (other := self._reverse.get(etype)) is not None:
                found.setdefault(other, []).append(self._same_edges(ids, etype, other))
        return {etype: torch.unique(torch.cat(pieces)) for etype, pieces in found.items()}

    def _same_edges(self, ids: Any, etype: Any, other: Any) -> Any:
        if self._graph.ids == "original":
            return ids
        book = self._graph.book
        return book.eid_orig2new(book.eid_new2orig(ids, etype), other)
