"""Samplers for `PartitionedGraph`, after chapter 6.4 of DGL's guide, and the exclusion of reverse edges.

A sampler chooses the edges that carry messages to the nodes of a layer: its *frontier*. The rest is the same
for all samplers: `dgl.to_block` makes a block of it, whose inputs are the seeds of the layer before. They
also take a ``DGLGraph``, except `LocalitySampler`, which needs partitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.partitioned_graph import PartitionedGraph

dgl = import_dgl()
_BlockSampler: Any = dgl.dataloading.BlockSampler

ORIGINAL = "_edge"  # edge data of a frontier that must outlive sampling from it
REMOTE = "remote"


class FrontierSampler(_BlockSampler):  # type: ignore[misc]  # dgl has no annotations
    """Makes blocks of several layers from the frontiers that a subclass chooses.

    In every block the outputs come first among the inputs, including those without an in-edge. Edge data
    ``dgl.EID`` are type-wise edge IDs, node data ``dgl.NID`` type-wise node IDs of the graph.

    Args:
        num_layers: Number of layers.
        prefetch: Arguments of `dgl.dataloading.BlockSampler`: ``prefetch_node_feats``, ``prefetch_labels``,
            ``prefetch_edge_feats``, ``output_device``.
    """

    def __init__(self, num_layers: int, **prefetch: Any) -> None:
        super().__init__(**prefetch)
        self.num_layers = num_layers

    @abstractmethod
    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        """Return the edges that lead to the seeds of a layer.

        Args:
            layer: Number of the layer, from 0, the farthest from the labels.
            graph: The graph.
            seeds: Type-wise node IDs, a tensor or a dict by node type.
            exclude: Type-wise IDs of edges to leave out, a tensor, a dict by edge type, or None.

        Returns:
            A ``DGLGraph`` with the nodes of the graph, and with type-wise edge IDs as ``dgl.EID``.
        """

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Return input nodes, output nodes, and blocks; see `dgl.dataloading.BlockSampler`."""
        output_nodes = seed_nodes
        blocks: list[Any] = []
        for layer in reversed(range(self.num_layers)):
            frontier = self.sample_frontier(layer, g, seed_nodes, exclude_eids)
            block = dgl.to_block(frontier, seed_nodes)
            for etype in frontier.canonical_etypes:  # to_block keeps the order of the edges
                for name, values in frontier.edges[etype].data.items():
                    block.edges[etype].data[name] = values
            seed_nodes = block.srcdata[dgl.NID]
            blocks.insert(0, block if self.output_device is None else block.to(self.output_device))
        return seed_nodes, output_nodes, blocks


class FullNeighborSampler(FrontierSampler):
    """Takes all in-edges of every node: exact, and as large as the neighbourhood."""

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        return without(_in_edges(graph, seeds), exclude)


class FanoutSampler(FrontierSampler):
    """Samples in-edges of every node.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 means all.
        prob: Name of an edge feature: edges are drawn in proportion to it.
        replace: Draw with replacement.
        prefetch: As for `FrontierSampler`.
    """

    def __init__(
        self, fanouts: Sequence[Any], *, prob: str | None = None, replace: bool = False, **prefetch: Any
    ) -> None:
        super().__init__(len(fanouts), **prefetch)
        self.fanouts = fanouts
        self.prob = prob
        self.replace = replace

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        return graph.sample_neighbors(
            seeds, self.fanouts[layer], prob=self.prob, replace=self.replace, exclude_edges=exclude
        )


class DropoutSampler(FrontierSampler):
    """Takes all in-edges of every node, and drops each with the same probability.

    Args:
        p: Probability that an edge is dropped.
        num_layers: Number of layers.
        prefetch: As for `FrontierSampler`.

    Raises:
        UsageError: `p` is not a probability.
    """

    def __init__(self, p: float, num_layers: int, **prefetch: Any) -> None:
        if not 0 <= p <= 1:
            raise UsageError(
                "The probability of dropping an edge is out of range", found=p, expected="0 to 1"
            )
        super().__init__(num_layers, **prefetch)
        self.p = p

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        found = without(_in_edges(graph, seeds), exclude)
        kept = {t: torch.rand(found.num_edges(t)) >= self.p for t in found.canonical_etypes}
        return _keep(found, kept)


class LocalitySampler(FrontierSampler):
    """Samples in-edges of every node, and prefers edges from its own partition.

    On a cluster every neighbour from another partition is a row that is fetched over the network. Blocks get
    the edge data ``remote``, uint8, 1 if the ends are in two partitions; `remote_share` sums it up.

    It reads all in-edges of the seeds, so nodes with very many in-edges are slow.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 means all.
        remote_weight: Weight of an edge from another partition; the weight of one from the same partition is
            1. With 1 no edge is preferred, with 0 edges from other partitions are never drawn.
        prefetch: As for `FrontierSampler`.

    Raises:
        UsageError: The weight is negative.
    """

    def __init__(self, fanouts: Sequence[Any], *, remote_weight: float = 0.1, **prefetch: Any) -> None:
        if not remote_weight >= 0:
            raise UsageError("A weight is negative", found=remote_weight, expected="0 or more")
        super().__init__(len(fanouts), **prefetch)
        self.fanouts = fanouts
        self.remote_weight = remote_weight

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        found = without(_in_edges(graph, seeds), exclude)
        for etype in found.canonical_etypes:
            remote = remote_edges(graph, found, etype)
            data = found.edges[etype].data
            data["_weight"] = torch.where(remote, self.remote_weight, 1.0).float()
            data[REMOTE], data[ORIGINAL] = remote.to(torch.uint8), data.pop(dgl.EID)
        drawn = dgl.sampling.sample_neighbors(found, seeds, self.fanouts[layer], prob="_weight")
        for etype in drawn.canonical_etypes:
            data = drawn.edges[etype].data
            data[dgl.EID] = data.pop(ORIGINAL)
            data.pop("_weight")
        return drawn


class ReverseTypes:
    """Excludes reverse edges like ``exclude="reverse_types"``, also with new IDs.

    Give it to ``as_edge_prediction_sampler``. DGL's own ``reverse_types`` takes edge e of one type for the
    reverse of edge e of the other. That holds for original IDs, if the input was made so. It does not hold
    for new IDs, because the partition of an edge is that of its destination. This class uses the ID maps.

    Args:
        graph: The graph.
        reverse_etypes: The reverse edge type of each edge type, names or triples. In the input, edge e of one
            is the reverse of edge e of the other.
    """

    def __init__(self, graph: PartitionedGraph, reverse_etypes: Mapping[Any, Any]) -> None:
        self._graph = graph
        canonical = graph.to_canonical_etype
        self._reverse = {canonical(one): canonical(other) for one, other in reverse_etypes.items()}

    def __call__(self, edges: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the edges and their reverses.

        Args:
            edges: Type-wise edge IDs by edge type, new or original as those of the graph.
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


def remote_edges(graph: Any, frontier: Any, etype: Any) -> Any:
    """Return whether the ends of each edge of a frontier are in two partitions, (edges,) bool tensor."""
    src, dst = frontier.edges(etype=etype)
    return graph.node_partition(src, etype[0]) != graph.node_partition(dst, etype[2])


def remote_share(blocks: Sequence[Any]) -> float:
    """Return the share of edges of blocks of `LocalitySampler` that come from another partition."""
    marks = [block.edges[t].data[REMOTE] for block in blocks for t in block.canonical_etypes]
    edges = sum(len(mark) for mark in marks)
    return float(sum(int(mark.sum()) for mark in marks) / edges) if edges else 0.0


def without(frontier: Any, exclude: Any) -> Any:
    """Return a frontier without some edges.

    Args:
        frontier: With type-wise edge IDs as ``dgl.EID``.
        exclude: Type-wise edge IDs, a tensor, a dict by edge type, or None.
    """
    if exclude is None:
        return frontier
    if not isinstance(exclude, Mapping):
        exclude = {frontier.canonical_etypes[0]: exclude}
    excluded = {frontier.to_canonical_etype(etype): ids for etype, ids in exclude.items()}
    kept = {
        etype: ~torch.isin(frontier.edges[etype].data[dgl.EID], excluded[etype])
        for etype in frontier.canonical_etypes
        if etype in excluded
    }
    return _keep(frontier, kept)


def _keep(frontier: Any, kept: Mapping[Any, Any]) -> Any:
    """Return the edges where a mask is true; all edges of a type without a mask."""
    ends = {}
    for etype in frontier.canonical_etypes:
        src, dst = frontier.edges(etype=etype)
        mask = kept.get(etype, slice(None))
        ends[etype] = (src[mask], dst[mask])
    nodes = {ntype: frontier.num_nodes(ntype) for ntype in frontier.ntypes}
    made = dgl.heterograph(ends, nodes, idtype=frontier.idtype)
    for etype in frontier.canonical_etypes:
        eids = frontier.edges[etype].data[dgl.EID]
        made.edges[etype].data[dgl.EID] = eids[kept.get(etype, slice(None))]
    return made


def _in_edges(graph: Any, seeds: Any) -> Any:
    """Return all in-edges, without the graph's own edge data."""
    return _keep(
        dgl.in_subgraph(graph, seeds) if isinstance(graph, dgl.DGLGraph) else graph.in_subgraph(seeds), {}
    )
