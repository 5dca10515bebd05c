"""Samplers of one's own, after chapter 6.4 of DGL's guide, over what `PartitionedGraph` offers.

A sampler says which edges the nodes of a layer get their messages through: its *frontier*. The rest is the
same for all: `dgl.to_block` makes a block of it, whose inputs are the seeds of the layer before. They take a
``DGLGraph`` too, but for `LocalitySampler`, which asks for partitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl

dgl = import_dgl()
_BlockSampler: Any = dgl.dataloading.BlockSampler

ORIGINAL = "_edge"  # edge data of a frontier that must outlive sampling from it
REMOTE = "remote"


class FrontierSampler(_BlockSampler):  # type: ignore[misc]  # dgl has no annotations
    """Blocks of several layers, from the frontiers that a subclass chooses.

    In every block the outputs come first among the inputs, also those that no edge leads to. Edge data
    ``dgl.EID`` are type-wise edge IDs, node data ``dgl.NID`` type-wise node IDs of the graph.

    Args:
        num_layers: Number of layers.
        prefetch: As `dgl.dataloading.BlockSampler` takes: ``prefetch_node_feats``, ``prefetch_labels``,
            ``prefetch_edge_feats``, ``output_device``.
    """

    def __init__(self, num_layers: int, **prefetch: Any) -> None:
        super().__init__(**prefetch)
        self.num_layers = num_layers

    @abstractmethod
    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        """The edges that lead to the seeds of a layer.

        Args:
            layer: From 0, which is the one farthest from the labels.
            graph: The graph.
            seeds: Type-wise node IDs, a tensor or a dict by node type.
            exclude: Type-wise edge IDs that must not be in it, a tensor, a dict by edge type, or None.

        Returns:
            A ``DGLGraph`` with the nodes of the graph, and with type-wise edge IDs as ``dgl.EID``.
        """

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Input nodes, output nodes, and the blocks, as `dgl.dataloading.BlockSampler` wants them."""
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
    """All in-edges of every node: exact, and as big as the neighbourhood is."""

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        return without(_in_edges(graph, seeds), exclude)


class FanoutSampler(FrontierSampler):
    """Some in-edges of every node.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 is all.
        prob: Name of an edge feature to draw by.
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
    """All in-edges of every node, each dropped with the same probability.

    Args:
        p: Probability that an edge is dropped.
        num_layers: Number of layers.
        prefetch: As for `FrontierSampler`.

    Raises:
        UsageError: `p` is no probability.
    """

    def __init__(self, p: float, num_layers: int, **prefetch: Any) -> None:
        if not 0 <= p <= 1:
            raise UsageError("The probability of dropping an edge is none", found=p, expected="0 to 1")
        super().__init__(num_layers, **prefetch)
        self.p = p

    def sample_frontier(self, layer: int, graph: Any, seeds: Any, exclude: Any) -> Any:
        found = without(_in_edges(graph, seeds), exclude)
        kept = {t: torch.rand(found.num_edges(t)) >= self.p for t in found.canonical_etypes}
        return _keep(found, kept)


class LocalitySampler(FrontierSampler):
    """Some in-edges of every node, those from its own partition rather than from others.

    On a cluster every neighbour from another partition is a row that is fetched over the network. Blocks
    get the edge data ``remote``, uint8, 1 where the ends are in two partitions; `remote_share` sums it up.

    Looks at all in-edges of the seeds, so nodes with very many are slow.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 is all.
        remote_weight: How likely an edge from another partition is drawn, against 1 for one from the
            same; 1 prefers none, 0 takes none.
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


def remote_edges(graph: Any, frontier: Any, etype: Any) -> Any:
    """(edges,) bool tensor: whether the ends of each edge of a frontier are in two partitions."""
    src, dst = frontier.edges(etype=etype)
    return graph.node_partition(src, etype[0]) != graph.node_partition(dst, etype[2])


def remote_share(blocks: Sequence[Any]) -> float:
    """Share of the edges of some blocks of `LocalitySampler` that come from another partition."""
    marks = [block.edges[t].data[REMOTE] for block in blocks for t in block.canonical_etypes]
    edges = sum(len(mark) for mark in marks)
    return float(sum(int(mark.sum()) for mark in marks) / edges) if edges else 0.0


def without(frontier: Any, exclude: Any) -> Any:
    """A frontier without some edges.

    Args:
        frontier: With type-wise edge IDs as ``dgl.EID``.
        exclude: Type-wise edge IDs, a tensor, a dict by edge type, or None.
    """
    if exclude is None:
        return frontier
    if not isinstance(exclude, Mapping):
        exclude = {frontier.canonical_etypes[0]: exclude}
    given = {frontier.to_canonical_etype(etype): ids for etype, ids in exclude.items()}
    kept = {
        etype: ~torch.isin(frontier.edges[etype].data[dgl.EID], given[etype])
        for etype in frontier.canonical_etypes
        if etype in given
    }
    return _keep(frontier, kept)


def _keep(frontier: Any, kept: Mapping[Any, Any]) -> Any:
    """The edges where a mask is true; all of a type that has none."""
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
    """All in-edges, without the graph's own edge data."""
    return _keep(
        dgl.in_subgraph(graph, seeds) if isinstance(graph, dgl.DGLGraph) else graph.in_subgraph(seeds), {}
    )
