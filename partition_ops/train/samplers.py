"""Samplers after chapter 6.4 of DGL's guide.

A sampler chooses the edges that carry messages to the nodes of a layer: its *frontier*. The rest is the same
for all samplers: `dgl.to_block` makes a block of it, whose inputs are the seeds of the layer before.

All samplers and functions of this module take a `PartitionedGraph`, a ``DGLGraph`` or a ``DistGraph``. IDs
are type-wise, those of the graph.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any

import torch

from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.reverse_types import ReverseTypes

dgl = import_dgl()
_BlockSampler: Any = dgl.dataloading.BlockSampler

ORIGINAL = "_edge"  # edge data of a frontier that must outlive sampling from it
REMOTE = "remote"
PART_ID = "part_id"  # node data of the partitions that DGL writes


class FrontierSampler(_BlockSampler):  # type: ignore[misc]  # dgl has no annotations
    """Makes blocks of several layers from the frontiers that a subclass chooses.

    It is the ``BlockSampler`` of chapter 6.4; that of dgl 1.1.3 has no layers and no ``sample_frontier``.

    In every block the outputs come first among the inputs, including those without an in-edge. Node data
    ``dgl.NID`` are type-wise node IDs of the graph. Edge data ``dgl.EID`` are those of the frontier:
    type-wise edge IDs of the graph for frontiers of `in_subgraph` and `sample_neighbors`; if a frontier has
    none, the edges of the frontier. Other data of a frontier, such as the features of a `PartitionedGraph` or
    a ``DGLGraph``, are in its block.

    Args:
        num_layers: Number of layers. A subclass that omits it defines ``__len__``.
        reverse: Excludes the reverse edges too if a data loader excludes the edges of a batch. For
            ``DistEdgeDataLoader``, which takes no function as ``exclude``; pass it ``exclude="self"``.
        prefetch: Arguments of `dgl.dataloading.BlockSampler`: ``prefetch_node_feats``, ``prefetch_labels``,
            ``prefetch_edge_feats``, ``output_device``.
    """

    def __init__(
        self, num_layers: int | None = None, *, reverse: ReverseTypes | None = None, **prefetch: Any
    ) -> None:
        super().__init__(**prefetch)
        self.num_layers = num_layers
        self.reverse = reverse

    def __len__(self) -> int:
        """Return the number of layers."""
        if self.num_layers is None:
            raise UsageError(
                "The sampler does not say how many layers it has",
                found=type(self).__name__,
                expected="super().__init__(number of layers), or a method __len__",
            )
        return self.num_layers

    @abstractmethod
    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, exclude: Any) -> Any:
        """Return the edges that lead to the seeds of a layer.

        Args:
            block_id: Number of the layer, from 0, the farthest from the labels.
            g: The graph.
            seed_nodes: Type-wise node IDs, a tensor or a dict by node type.
            exclude: Type-wise IDs of edges to leave out, a tensor, a dict by edge type, or None. A subclass
                may omit this parameter; these edges are removed from its frontier anyway.

        Returns:
            A ``DGLGraph`` with the nodes of the graph.
        """

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Return input nodes, output nodes, and blocks; see `dgl.dataloading.BlockSampler`.

        Raises:
            UsageError: A frontier has an edge to a node that is not a seed. Edges are to be left out, and a
                frontier has no edge IDs. The sampler has `reverse`, and the data loader excludes nothing.
        """
        if (reverse := getattr(self, "reverse", None)) is not None:
            exclude_eids = reverse.of_batch(g, exclude_eids)
        output_nodes = seed_nodes
        blocks: list[Any] = []
        exclude = (exclude_eids,) if _takes_exclude(self.sample_frontier) else ()
        for layer in reversed(range(len(self))):
            frontier = without(self.sample_frontier(layer, g, seed_nodes, *exclude), exclude_eids)
            block = dgl.to_block(frontier, seed_nodes)
            _check_outputs(block)
            for etype in frontier.canonical_etypes:
                if dgl.EID in frontier.edges[etype].data:
                    edges = block.edges[etype].data[dgl.EID]
                    block.edges[etype].data[dgl.EID] = frontier.edges[etype].data[dgl.EID][edges]
            seed_nodes = block.srcdata[dgl.NID]
            blocks.insert(0, block if self.output_device is None else block.to(self.output_device))
        return seed_nodes, output_nodes, blocks


class FullNeighborSampler(FrontierSampler):
    """Takes all in-edges of every node: exact, and as large as the neighbourhood."""

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, exclude: Any = None) -> Any:
        return without(in_subgraph(g, seed_nodes), exclude)


class FanoutSampler(FrontierSampler):
    """Samples in-edges of every node.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 or None means
            all.
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

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, exclude: Any = None) -> Any:
        fanout = self.fanouts[block_id]
        return sample_neighbors(
            g, seed_nodes, fanout, prob=self.prob, replace=self.replace, exclude_edges=exclude
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

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, exclude: Any = None) -> Any:
        found = without(in_subgraph(g, seed_nodes), exclude)
        kept = {
            t: torch.rand(found.num_edges(t), device=found.device) >= self.p for t in found.canonical_etypes
        }
        return _keep(found, kept)


class LocalitySampler(FrontierSampler):
    """Samples in-edges of every node, and prefers edges from its own partition.

    On a cluster every neighbour from another partition is a row that is fetched over the network. Blocks get
    the edge data ``remote``, uint8, 1 if the ends are in two partitions; `remote_share` sums it up.

    It reads all in-edges of the seeds, so nodes with very many in-edges are slow.

    Args:
        fanouts: For each layer the number of edges of each type, or a dict by edge type; -1 or None means
            all.
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

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, exclude: Any = None) -> Any:
        found = without(in_subgraph(g, seed_nodes), exclude)
        for etype in found.canonical_etypes:
            remote = remote_edges(g, found, etype)
            data = found.edges[etype].data
            data["_weight"] = torch.where(remote, self.remote_weight, 1.0).float()
            data[REMOTE], data[ORIGINAL] = remote.to(torch.uint8), data.pop(dgl.EID)
        fanout = _all_if_none(self.fanouts[block_id])
        drawn = dgl.sampling.sample_neighbors(found, seed_nodes, fanout, prob="_weight")
        for etype in drawn.canonical_etypes:
            data = drawn.edges[etype].data
            data[dgl.EID] = data.pop(ORIGINAL)
            data.pop("_weight")
        return drawn


def in_subgraph(g: Any, nodes: Any) -> Any:
    """Return all in-edges of some nodes, as ``dgl.in_subgraph``, which does not take a ``DistGraph``.

    Returns:
        A ``DGLGraph`` with all nodes, all edge types, and type-wise edge IDs of the graph as ``dgl.EID``.
        From a ``DistGraph``, it has no other data.
    """
    if isinstance(g, dgl.distributed.DistGraph):
        return _all_types(g, g.sample_neighbors(nodes, -1))
    return dgl.in_subgraph(g, nodes) if isinstance(g, dgl.DGLGraph) else g.in_subgraph(nodes)


def sample_neighbors(
    g: Any,
    nodes: Any,
    fanout: Any,
    *,
    prob: str | None = None,
    replace: bool = False,
    exclude_edges: Any = None,
) -> Any:
    """Sample in-edges of each node, as ``dgl.sampling.sample_neighbors``.

    ``DistGraph.sample_neighbors`` of dgl 1.1.3 ignores ``exclude_edges``. Here, excluded edges are removed
    after drawing from a ``DistGraph``, so that a node may have fewer edges than the fanout.

    Args:
        g: The graph.
        nodes: Type-wise IDs, a tensor or a dict by node type.
        fanout: Edges of each edge type for each node, or a dict by edge type; -1 or None means all.
        prob: Name of an edge feature: edges are drawn in proportion to it.
        replace: Draw with replacement.
        exclude_edges: Type-wise IDs of edges not to return, a tensor or a dict by edge type.

    Returns:
        As `in_subgraph`.
    """
    fanout = _all_if_none(fanout)
    if not isinstance(g, dgl.distributed.DistGraph):
        return g.sample_neighbors(nodes, fanout, prob=prob, replace=replace, exclude_edges=exclude_edges)
    drawn = g.sample_neighbors(nodes, fanout, prob=prob, replace=replace)
    return without(_all_types(g, drawn), exclude_edges)


def node_partition(g: Any, nodes: Any, ntype: str) -> Any:
    """Return the partition that owns each node, (n,) int64 tensor.

    A ``DGLGraph`` has the partitions in its node data ``part_id``; without that it is one partition, 0.
    """
    if isinstance(g, dgl.distributed.DistGraph):
        return g.get_partition_book().nid2partid(nodes, ntype)
    if not isinstance(g, dgl.DGLGraph):
        return g.node_partition(nodes, ntype)
    known = g.nodes[ntype].data
    return known[PART_ID][nodes].long() if PART_ID in known else torch.zeros_like(nodes)


def remote_edges(graph: Any, frontier: Any, etype: Any) -> Any:
    """Return whether the ends of each edge of a frontier are in two partitions, (edges,) bool tensor."""
    src, dst = frontier.edges(etype=etype)
    return node_partition(graph, src, etype[0]) != node_partition(graph, dst, etype[2])


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

    Raises:
        UsageError: The frontier has edges, but no edge IDs.
    """
    if exclude is None:
        return frontier
    if not isinstance(exclude, Mapping):
        exclude = {frontier.canonical_etypes[0]: exclude}
    excluded = {frontier.to_canonical_etype(etype): ids for etype, ids in exclude.items()}
    kept = {}
    for etype in frontier.canonical_etypes:
        if etype in excluded and frontier.num_edges(etype):
            if dgl.EID not in frontier.edges[etype].data:
                raise UsageError(
                    "Edges are to be excluded, and the frontier does not say which edges it has",
                    found=f"no edge data dgl.EID of {etype}",
                    expected="the type-wise edge IDs of the graph",
                    remedy="Keep the edge data dgl.EID of in_subgraph or sample_neighbors in the frontier.",
                )
            kept[etype] = ~torch.isin(frontier.edges[etype].data[dgl.EID], excluded[etype])
    return frontier if all(bool(mask.all()) for mask in kept.values()) else _keep(frontier, kept)


def _keep(frontier: Any, kept: Mapping[Any, Any]) -> Any:
    """Return the edges where a mask is true; all edges of a type without a mask."""
    edges = {
        etype: torch.arange(frontier.num_edges(etype), device=frontier.device)[kept.get(etype, slice(None))]
        for etype in frontier.canonical_etypes
    }
    made = dgl.edge_subgraph(frontier, edges, relabel_nodes=False, store_ids=False)
    for etype, some in edges.items():
        if dgl.EID in frontier.edges[etype].data:
            made.edges[etype].data[dgl.EID] = frontier.edges[etype].data[dgl.EID][some]
    return made


def _all_types(graph: Any, frontier: Any) -> Any:
    """Return a frontier of a ``DistGraph`` with all edge types; it lacks those without edges."""
    if len(graph.canonical_etypes) == 1 and dgl.EID in frontier.edata:
        return frontier
    none = torch.empty(0, dtype=torch.int64)
    found = dict.fromkeys(graph.canonical_etypes, (none, none, none))
    for etype in frontier.canonical_etypes:
        if frontier.num_edges(etype):
            eids = frontier.edges[etype].data[dgl.EID]
            found[etype] = (*frontier.edges(etype=etype), eids)
    ends = {etype: (src, dst) for etype, (src, dst, _) in found.items()}
    nodes = {ntype: graph.num_nodes(ntype) for ntype in graph.ntypes}
    made = dgl.heterograph(ends, nodes, idtype=torch.int64)
    for etype, (_, _, eids) in found.items():
        made.edges[etype].data[dgl.EID] = eids
    return made


def _check_outputs(block: Any) -> None:
    """Check that every edge ends at an output; dgl 1.1.3 makes edges to nodes that are not there."""
    for etype in block.canonical_etypes:
        _, dst = block.edges(etype=etype)
        outside = int((dst >= block.num_dst_nodes(etype[2])).sum())
        if outside:
            raise UsageError(
                "A frontier has edges to nodes that are not among the seeds of its layer",
                found=f"{outside} of {len(dst)} edges of {':'.join(etype)}",
                expected="edges to the seed nodes that sample_frontier gets",
            )


def _takes_exclude(sample_frontier: Any) -> bool:
    """Return whether the method takes excluded edges as fourth argument; the chapter's examples do not."""
    kinds = [p.kind for p in inspect.signature(sample_frontier).parameters.values()]
    named = [kind for kind in kinds if kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    return len(named) > 3 or Parameter.VAR_POSITIONAL in kinds


def _all_if_none(fanout: Any) -> Any:
    if isinstance(fanout, Mapping):
        return {etype: _all_if_none(number) for etype, number in fanout.items()}
    return -1 if fanout is None else fanout
