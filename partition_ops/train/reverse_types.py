"""Reverse edges of the edges of a batch, which link prediction leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.errors import UsageError
from partition_ops.train.partitioned_graph import PartitionedGraph


class ReverseTypes:
    """Excludes reverse edges like ``exclude="reverse_types"``, also with new IDs.

    DGL's own ``reverse_types`` takes edge e of one type for the reverse of edge e of the other. That holds
    for original IDs, if the input was made so. It cannot hold for new IDs, because the partition of an edge
    is that of its destination. This class converts through the ID maps of the output, which are fetched when
    they are first needed.

    On one machine, pass it to ``as_edge_prediction_sampler`` as ``exclude``. On a cluster, pass it to a
    sampler of this module as ``reverse``: dgl's own samplers draw excluded edges from a ``DistGraph``.

    Args:
        graph: A `PartitionedGraph`; on a cluster, the `PartitionBook` of the output.
        reverse_etypes: The reverse edge type of each edge type, names or triples. In the input, edge e of one
            is the reverse of edge e of the other. Default: as ``reverse_edges`` of the input says.
        reverse_eids: For edge types whose reverse edges have other IDs in the input: (edges,) the original ID
            of the reverse of each edge, by original ID. If the type is not in `reverse_etypes`, its reverse
            edges have the same type.

    Raises:
        UsageError: From the first batch of an edge type: its edges are not reverse edges in the graph.

    Disk: 16 bytes an edge of each type, in the folder for temporary files. Peak memory: a few arrays of the
    length of a batch.
    """

    def __init__(
        self,
        graph: PartitionedGraph | PartitionBook,
        reverse_etypes: Mapping[Any, Any] | None = None,
        reverse_eids: Mapping[Any, Any] | None = None,
    ) -> None:
        self._book = graph if isinstance(graph, PartitionBook) else graph.book
        self._ids = "new" if isinstance(graph, PartitionBook) else graph.ids
        self._graph = None if isinstance(graph, PartitionBook) else graph
        canonical = self._book.to_canonical_etype
        self._eids = {canonical(one): torch.as_tensor(ids) for one, ids in (reverse_eids or {}).items()}
        self._types = {etype: etype for etype in self._eids}
        known = self._book.reverse_etypes
        named = known if reverse_etypes is None else reverse_etypes
        self._types |= {canonical(one): canonical(other) for one, other in named.items()}
        # in the input, the second half of such edges are the reverse edges of the first half
        self._halves = {one for one, other in known.items() if one == other} - {*self._eids}
        self._checked: set[Any] = set()  # edge types whose first batch was checked

    def __call__(self, edges: Any) -> Any:
        """Return the edges and their reverses.

        Args:
            edges: Type-wise edge IDs, new or original as those of the graph: a dict by edge type, or a tensor
                if there is one edge type.

        Returns:
            IDs in the same form.
        """
        return self._with_reverses(self._graph, edges)

    def of_batch(self, graph: Any, edges: Any) -> Any:
        """Return the edges that a data loader excludes, and their reverses, in the form of the loader.

        Args:
            graph: The graph of the loader.
            edges: As for a call; or None, if the loader excludes nothing.

        Raises:
            UsageError: It excludes nothing.
        """
        if edges is None:
            raise UsageError(
                "The sampler excludes reverse edges, and the data loader does not exclude the edges",
                expected='exclude="self"',
            )
        return self._with_reverses(graph, edges)

    def _with_reverses(self, graph: Any, edges: Any) -> Any:
        if not isinstance(edges, Mapping):
            (etype,) = self._book.canonical_etypes
            return self._with_reverses(graph, {etype: edges})[etype]
        found: dict[Any, Any] = {}
        for name, ids in edges.items():
            etype = self._book.to_canonical_etype(name)
            found.setdefault(etype, []).append(ids)
            if (other := self._types.get(etype)) is not None:
                reverse = ids if self._ids == "original" else self._book.eid_new2orig(ids, etype)
                if etype in self._halves:
                    count = len(self._book.edge_id_map(etype).new)
                    reverse = (reverse + count // 2) % count
                reverse = self._eids[etype][reverse] if etype in self._eids else reverse
                if self._ids != "original":
                    reverse = self._book.eid_orig2new(reverse, other)
                if graph is not None and etype not in self._checked:
                    _check(graph, ids, reverse, etype, other)
                    self._checked.add(etype)
                found.setdefault(other, []).append(reverse)
        return {etype: torch.unique(torch.cat(pieces)) for etype, pieces in found.items()}


def _check(graph: Any, ids: Any, reverse: Any, etype: Any, other: Any) -> None:
    src, dst = graph.find_edges(ids, etype=etype)
    reverse_src, reverse_dst = graph.find_edges(reverse, etype=other)
    wrong = ((src != reverse_dst) | (dst != reverse_src)).nonzero().reshape(-1)
    if not len(wrong):
        return
    one = int(wrong[0])
    raise UsageError(
        f"Edges of {':'.join(other)} are not the reverse of edges of {':'.join(etype)}",
        found=f"edge {int(ids[one])}, {int(src[one])} to {int(dst[one])}, and edge"
        f" {int(reverse[one])}, {int(reverse_src[one])} to {int(reverse_dst[one])}",
        expected="edge e of one type is the reverse of edge e of the other, in the input",
        remedy="Correct reverse_etypes, or pass the original IDs of the reverse edges as reverse_eids.",
    )
