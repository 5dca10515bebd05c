"""The data and types of an open output as attributes of ``DGLGraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from partition_ops.chunked.id_converter import check_range
from partition_ops.train.dgl_graphs import DglGraphs
from partition_ops.train.graph_data import (
    AsyncMemmapStorage,
    GraphData,
    MemmapStorage,
    NodeViews,
    TypeData,
    TypeViews,
)
from partition_ops.train.stored_graph import StoredGraph

Tensors = Any  # a tensor, or a dict of tensors by type


class OpenOutput(StoredGraph):
    """A `StoredGraph` with the attributes of ``DGLGraph`` for data and types."""

    is_block = False
    is_unibipartite = False
    idtype = torch.int64
    device = torch.device("cpu")

    def _opened(self) -> None:
        self._graphs = DglGraphs(self.book, self._edges, self.ids)
        self._in = self._graphs.get("in")
        identity = (self._files.output.uri, self.config_sha256, self.ids, self.parts)
        self._data = GraphData(self.book, self._node_features, self._edge_features, identity)
        self._data.attach(self._in)
        self._storage = AsyncMemmapStorage if self._options["asynchronous"] else MemmapStorage
        self._probabilities: dict[str, list[Any]] = {}

    number_of_nodes = StoredGraph.num_nodes
    number_of_edges = StoredGraph.num_edges

    def get_ntype_id(self, ntype: str | None) -> int:
        """Return the ID of a node type in DGL's order."""
        return int(self._in.get_ntype_id(ntype))

    def get_etype_id(self, etype: Any) -> int:
        """Return the ID of an edge type in DGL's order."""
        return int(self._in.get_etype_id(etype))

    @property
    def nodes(self) -> NodeViews:
        """Views of the node types: ``nodes[type].data[name]`` is a `GraphFeature`; ``nodes(type)``, all IDs.

        As in DGL, the type may be None if there is one.
        """
        names = self.book.nodes.names.names
        return NodeViews(self._data, "node", lambda ntype: names[self._node_type(ntype)])

    @property
    def edges(self) -> TypeViews:
        """Views of the edge types: ``edges[type].data[name]`` is a `GraphFeature`."""
        return TypeViews(self._data, "edge", self._etype)

    @property
    def ndata(self) -> TypeData:
        """Node features by name; of a graph with several node types, dicts by type."""
        return TypeData(self._data, "node", self._data.types["node"])

    @property
    def edata(self) -> TypeData:
        """Edge features by name; of a graph with several edge types, dicts by type."""
        return TypeData(self._data, "edge", self._data.types["edge"])

    def is_pinned(self) -> bool:
        """Return False: the graph is not in page-locked memory."""
        return False

    def get_node_storage(self, key: str, ntype: str | None = None) -> Any:
        """Return the storage of a node feature, from which data loaders prefetch."""
        return self._storage(self.node_rows(key, ntype))

    def get_edge_storage(self, key: str, etype: Any = None) -> Any:
        """Return the storage of an edge feature, from which data loaders prefetch."""
        return self._storage(self.edge_rows(key, etype))

    def _canonical(self, edges: Tensors) -> Any:
        if not isinstance(edges, Mapping):
            return edges
        return {self.to_canonical_etype(etype): eids for etype, eids in edges.items()}

    def _check_nodes(self, nodes: Tensors) -> None:
        by_type = nodes if isinstance(nodes, Mapping) else {None: nodes}
        for ntype, ids in by_type.items():
            type_id = self._node_type(ntype)
            what = f"The {self.ids} ID of node type {self.book.nodes.names.names[type_id]!r}"
            check_range(torch.as_tensor(ids).numpy(), self.book.nodes.count(type_id), what)
