"""Neighbours, subgraphs and edges of an opened output, as DGL's samplers ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.csr_graphs import Direction
from partition_ops.train.graph_features import GraphFeatures
from partition_ops.train.graph_types import Tensors
from partition_ops.train.negatives import non_edges

dgl = import_dgl()


class GraphSampling(GraphFeatures):
    """The part of ``DGLGraph`` that samplers call."""

    def sample_neighbors(
        self,
        nodes: Tensors,
        fanout: int | Mapping[Any, int],
        edge_dir: Direction = "in",
        prob: str | None = None,
        replace: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        exclude_edges: Tensors = None,
        output_device: Any = None,
        **_: Any,
    ) -> Any:
        """Some edges of every given node, as ``dgl.sampling.sample_neighbors``, which does the work.

        Args:
            nodes: Type-wise IDs, a tensor or a dict by node type.
            fanout: Edges of each edge type for each node, -1 for all; or a dict with every edge type.
            edge_dir: ``in`` or ``out``.
            prob: Name of a scalar edge feature: edges are drawn in proportion to it, or a mask.
            replace: Draw with replacement.
            copy_ndata: Not used: features come through storages.
            copy_edata: Not used, likewise.
            exclude_edges: Type-wise edge IDs that are not to be drawn, a tensor or a dict by edge type.
            output_device: Where the result is to be.

        Returns:
            A ``DGLGraph`` with all nodes and the edges that were drawn; their type-wise IDs, int64, are its
            edge data ``dgl.EID``. Peak memory: a multiple of that.

        Raises:
            InvalidIdError: There is no such node.
        """
        self._check_nodes(nodes)
        probabilities = None if prob is None else self._probability(prob)
        frontier = dgl.sampling.sample_neighbors(
            self._graphs.get(edge_dir),
            nodes,
            fanout,
            edge_dir=edge_dir,
            prob=probabilities,
            replace=replace,
            exclude_edges=self._canonical(exclude_edges),
        )
        self._resident.check()
        return frontier if output_device is None else frontier.to(output_device)

    def in_subgraph(self, nodes: Tensors, *, output_device: Any = None, **_: Any) -> Any:
        """All in-edges of some nodes, as ``dgl.in_subgraph``; edge IDs as in `sample_neighbors`."""
        return self._around(dgl.in_subgraph, "in", nodes, output_device)

    def out_subgraph(self, nodes: Tensors, *, output_device: Any = None, **_: Any) -> Any:
        """All out-edges of some nodes, as ``dgl.out_subgraph``; edge IDs as in `sample_neighbors`."""
        return self._around(dgl.out_subgraph, "out", nodes, output_device)

    def _around(self, function: Any, direction: Direction, nodes: Tensors, output_device: Any) -> Any:
        self._check_nodes(nodes)
        found = function(self._graphs.get(direction), nodes)
        self._resident.check()
        return found if output_device is None else found.to(output_device)

    def find_edges(self, eid: Any, etype: Any = None) -> tuple[Any, Any]:
        """Sources and destinations of some edges: (n,) tensors of type-wise IDs.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        found = self._graphs.find_edges(torch.as_tensor(eid), self._etype(etype))
        self._resident.check()
        return found

    def edge_subgraph(
        self, edges: Tensors, *, relabel_nodes: bool = False, output_device: Any = None, **_: Any
    ) -> Any:
        """Some edges with all nodes, as ``DGLGraph.edge_subgraph``.

        Args:
            edges: Type-wise edge IDs, a tensor or a dict by edge type.
            relabel_nodes: Keep only the nodes that the edges have, renumbered; their type-wise IDs are the
                node data ``dgl.NID`` then.
            output_device: Where the result is to be.

        Returns:
            A ``DGLGraph``; the edges' type-wise IDs are its edge data ``dgl.EID``.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        given = self._canonical(edges if isinstance(edges, Mapping) else {self._etype(None): edges})
        none = torch.empty(0, dtype=torch.int64)
        ids = {etype: torch.as_tensor(given.get(etype, none)) for etype in self.canonical_etypes}
        ends = {etype: self.find_edges(eids, etype) for etype, eids in ids.items()}
        found = dgl.heterograph(
            ends, {name: self.num_nodes(name) for name in self.ntypes}, idtype=torch.int64
        )
        if relabel_nodes:
            found = dgl.compact_graphs(found)
        for etype, eids in ids.items():
            found.edges[etype].data[dgl.EID] = eids
        return found if output_device is None else found.to(output_device)

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Whether each pair is joined by an edge: (n,) bool tensor."""
        found = self._graphs.has_edges(torch.as_tensor(u), torch.as_tensor(v), self._etype(etype))
        self._resident.check()
        return found

    def in_degrees(self, v: Any = None, etype: Any = None) -> Any:
        """Number of in-edges of some nodes of the destination type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("in", v, self._etype(etype))

    def out_degrees(self, u: Any = None, etype: Any = None) -> Any:
        """Number of out-edges of some nodes of the source type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("out", u, self._etype(etype))

    def global_uniform_negative_sampling(
        self,
        num_samples: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        etype: Any = None,
        redundancy: float | None = None,
    ) -> tuple[Any, Any]:
        """Pairs of nodes that no edge joins, as ``dgl.sampling.global_uniform_negative_sampling``.

        Args:
            num_samples: How many pairs; there are fewer where the graph is dense, as in DGL.
            exclude_self_loops: No node with itself, where source and destination type are the same.
            replace: Let a pair be there twice.
            etype: Which edge type.
            redundancy: How many more to draw at first, relatively; found out from the density otherwise.

        Returns:
            (n,) sources and (n,) destinations, type-wise. Reproducible by ``torch.manual_seed``.
        """
        return non_edges(
            self, num_samples, exclude_self_loops, replace, self._etype(etype), redundancy=redundancy
        )
