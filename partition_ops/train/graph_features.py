"""Features of an opened output: rows, storages for data loaders, and probabilities of edges."""

from __future__ import annotations

from typing import Any

import torch

from partition_ops.train.columns import edge_columns
from partition_ops.train.feature_files import Access, FeatureFiles
from partition_ops.train.features import FeatureRows
from partition_ops.train.graph_types import GraphTypes
from partition_ops.train.mapped import ResidentLimit
from partition_ops.train.ranges import BlockCache
from partition_ops.train.source import IdKind, OutputFiles
from partition_ops.train.storages import AsyncMemmapStorage, MemmapStorage


class GraphFeatures(GraphTypes):
    """The part of ``DGLGraph`` that is about features.

    Args:
        files: The output.
        ids: Which IDs the graph has.
        resident: Watches over what is mapped.
        blocks: The blocks that range requests brought.
        access: How rows are read; see `FeatureFiles`.
        asynchronous: Read every feature of a batch in a thread of its own.
    """

    def __init__(
        self,
        files: OutputFiles,
        ids: IdKind,
        resident: ResidentLimit,
        blocks: BlockCache,
        access: Access,
        asynchronous: bool,
    ) -> None:
        super().__init__(files, ids, resident)
        self.blocks = blocks
        nodes = [self.book.nodes.count(t) for t in range(len(self.book.ntypes))]
        self._node_features = FeatureFiles(files, "node", ids, nodes, access, resident, blocks)
        edges = self._graphs.num_edge_ids
        self._edge_features = FeatureFiles(files, "edge", ids, edges, access, resident, blocks)
        self._storage = AsyncMemmapStorage if asynchronous else MemmapStorage
        self._probabilities: dict[str, list[Any]] = {}

    def node_features(self, ntype: str | None = None) -> list[str]:
        """Names of the features of a node type."""
        return self._node_features.names(self._node_type(ntype))

    def edge_features(self, etype: Any = None) -> list[str]:
        """Names of the features of an edge type."""
        return self._edge_features.names(self.book.edges.names.id_of(self._etype(etype)))

    def get_node_storage(self, key: str, ntype: str | None = None) -> Any:
        """The storage of a node feature, from which data loaders prefetch."""
        return self._storage(self.node_rows(key, ntype))

    def get_edge_storage(self, key: str, etype: Any = None) -> Any:
        """The storage of an edge feature, from which data loaders prefetch."""
        return self._storage(self.edge_rows(key, etype))

    def node_rows(self, key: str, ntype: str | None = None) -> FeatureRows:
        """A node feature as NumPy rows."""
        return self._node_features.rows(key, self._node_type(ntype))

    def edge_rows(self, key: str, etype: Any = None) -> FeatureRows:
        """An edge feature as NumPy rows."""
        return self._edge_features.rows(key, self.book.edges.names.id_of(self._etype(etype)))

    def node_partition(self, nodes: Any, ntype: str | None = None) -> Any:
        """(n,) int64 tensor: the partition that owns each node."""
        locator = self._node_features.locator(self._node_type(ntype))
        found = torch.from_numpy(locator.find(torch.as_tensor(nodes).numpy())[0])
        self._resident.check()
        return found

    def _probability(self, name: str) -> list[Any]:
        """For each edge type in DGL's order, the feature by edge ID as a tensor, or None."""
        if name not in self._probabilities:
            columns = edge_columns(
                self._files, self._edge_features, name, self.ids, self._graphs.num_edge_ids, self._resident
            )
            self._probabilities[name] = self._graphs.in_dgl_order(columns)
        return self._probabilities[name]
