"""The types, counts and features of an open output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.id_converter import check_range
from partition_ops.errors import UsageError
from partition_ops.storage import Store, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.cache import CACHE_BYTES, CACHED_BYTES, BlockCache, Cache, default_cache_folder
from partition_ops.train.dgl_graphs import DglGraphs
from partition_ops.train.features import Access, FeatureRows, Features
from partition_ops.train.graph_data import (
    AsyncMemmapStorage,
    GraphData,
    MemmapStorage,
    NodeViews,
    TypeData,
    TypeViews,
)
from partition_ops.train.output_files import IdKind, OutputFiles, ResidentLimit

dgl = import_dgl()

EType = tuple[str, str, str]
Tensors = Any  # a tensor, or a dict of tensors by type


class OpenOutput:
    """The types, counts, partitions and features of the output of a `PartitionedGraph`.

    It has the attributes of ``DGLGraph`` for them. `PartitionedGraph` documents the arguments.
    """

    is_block = False
    is_unibipartite = False
    idtype = torch.int64
    device = torch.device("cpu")

    def __init__(
        self,
        output: Store | str,
        *,
        parts: Iterable[int] | None = None,
        ids: IdKind = "new",
        cache: Path | str | None = None,
        cache_bytes: int = CACHE_BYTES,
        features: Access | None = None,
        asynchronous: bool = False,
        resident_bytes: int | None = None,
        row_cache_bytes: int = CACHED_BYTES,
        unpublished: bool = False,
    ) -> None:
        if ids not in ("new", "original"):
            raise UsageError("There are no such IDs", found=repr(ids), expected="'new' or 'original'")
        store = open_store(output) if isinstance(output, str) else output
        of_a_subclass = set(vars(self))
        self._options: dict[str, Any] = {
            "parts": None if parts is None else tuple(parts),
            "ids": ids,
            "cache": cache,
            "cache_bytes": cache_bytes,
            "features": features,
            "asynchronous": asynchronous,
            "resident_bytes": resident_bytes,
            "row_cache_bytes": row_cache_bytes,
            "unpublished": unpublished,
        }
        self.ids: IdKind = ids
        folder = Path(cache) if cache else default_cache_folder()
        self._files = OutputFiles(
            store, self._options["parts"], Cache(folder, cache_bytes), unpublished=unpublished
        )
        self._resident = ResidentLimit(resident_bytes)
        self._graphs = DglGraphs(self._files, ids, self._resident)
        self._in = self._graphs.get("in")  # before a data loader forks its workers
        self.blocks = BlockCache(store, limit=row_cache_bytes)
        mapped: Access = "mapped" if resident_bytes is None else "read"  # a page holds few of the rows read
        access: Access = features or (mapped if self._files.is_local else "ranges")
        nodes = [self.book.nodes.count(t) for t in range(len(self.book.ntypes))]
        how = (access, self._resident, self.blocks)
        self._node_features = Features(self._files, "node", ids, nodes, *how)
        self._edge_features = Features(self._files, "edge", ids, self._graphs.num_edge_ids, *how)
        identity = (store.uri, self.config_sha256, ids, self.parts)
        self._data = GraphData(self.book, self._node_features, self._edge_features, identity)
        self._data.attach(self._in)
        self._storage = AsyncMemmapStorage if asynchronous else MemmapStorage
        self._probabilities: dict[str, list[Any]] = {}
        self._own = set(vars(self)) - of_a_subclass | {"_own"}

    def __reduce__(self) -> Any:
        output = self._files.output
        added = {name: value for name, value in vars(self).items() if name not in self._own}
        return _reopen, (type(self), output.uri, output.settings, self._options), added

    def __repr__(self) -> str:
        nodes = {name: self.num_nodes(name) for name in self.ntypes}
        edges = {etype: self.num_edges(etype) for etype in self.canonical_etypes}
        return f"PartitionedGraph({self._files.output.uri!r}, num_nodes={nodes}, num_edges={edges})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the cache remove what this graph uses, when it needs room."""
        self._files.close()

    @property
    def book(self) -> PartitionBook:
        """The `PartitionBook`: partitions of nodes and edges, and conversion of new and original IDs."""
        return self._files.book

    @property
    def config_sha256(self) -> str:
        """SHA-256 of the file that describes all partitions, which differs between two partitionings."""
        return self._files.sha256(self._files.config_key)

    @property
    def parts(self) -> tuple[int, ...]:
        """The open partitions."""
        return self._files.parts

    @property
    def ntypes(self) -> list[str]:
        """Node types, in DGL's order."""
        return list(self._in.ntypes)

    @property
    def etypes(self) -> list[str]:
        """Relations, in DGL's order."""
        return list(self._in.etypes)

    @property
    def canonical_etypes(self) -> list[EType]:
        """Edge types as triples, in DGL's order."""
        return list(self._in.canonical_etypes)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return bool(self._in.is_homogeneous)

    def to_canonical_etype(self, etype: Any) -> EType:
        """Return the triple of a relation or of a triple."""
        return self.book.to_canonical_etype(etype)

    def get_ntype_id(self, ntype: str | None) -> int:
        """Return the ID of a node type in DGL's order."""
        return int(self._in.get_ntype_id(ntype))

    def get_etype_id(self, etype: Any) -> int:
        """Return the ID of an edge type in DGL's order."""
        return int(self._in.get_etype_id(etype))

    def num_nodes(self, ntype: str | None = None) -> int:
        """Return the number of nodes of a type, or of all types, in all partitions of the output."""
        return self.book.nodes.total if ntype is None else self.book.nodes.count(ntype)

    def num_edges(self, etype: Any = None) -> int:
        """Return the number of edges of a type, or of all types, that the open partitions own."""
        return int(
            self._in.num_edges() if etype is None else self._in.num_edges(self.to_canonical_etype(etype))
        )

    number_of_nodes = num_nodes
    number_of_edges = num_edges

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

    def node_features(self, ntype: str | None = None) -> list[str]:
        """Return the names of the features of a node type."""
        return self._node_features.names(self._node_type(ntype))

    def edge_features(self, etype: Any = None) -> list[str]:
        """Return the names of the features of an edge type."""
        return self._edge_features.names(self._edge_type_id(etype))

    def get_node_storage(self, key: str, ntype: str | None = None) -> Any:
        """Return the storage of a node feature, from which data loaders prefetch."""
        return self._storage(self.node_rows(key, ntype))

    def get_edge_storage(self, key: str, etype: Any = None) -> Any:
        """Return the storage of an edge feature, from which data loaders prefetch."""
        return self._storage(self.edge_rows(key, etype))

    def node_rows(self, key: str, ntype: str | None = None) -> FeatureRows:
        """Return a node feature as NumPy rows."""
        return self._node_features.rows(key, self._node_type(ntype))

    def edge_rows(self, key: str, etype: Any = None) -> FeatureRows:
        """Return an edge feature as NumPy rows."""
        return self._edge_features.rows(key, self._edge_type_id(etype))

    def node_partition(self, nodes: Any, ntype: str | None = None) -> Any:
        """Return the partition that owns each node, (n,) int64 tensor."""
        locator = self._node_features.locator(self._node_type(ntype))
        found = torch.from_numpy(locator.find(torch.as_tensor(nodes).numpy())[0])
        self._resident.check()
        return found

    def _node_type(self, ntype: str | None) -> int:
        names = self.book.nodes.names
        if ntype is None and len(names) > 1:
            raise UsageError("The node type is missing", expected="one of " + ", ".join(names.names))
        return 0 if ntype is None else int(names.id_of(ntype))

    def _edge_type_id(self, etype: Any) -> int:
        return int(self.book.edges.names.id_of(self._etype(etype)))

    def _etype(self, etype: Any) -> EType:
        if etype is None and len(self.canonical_etypes) > 1:
            names = ", ".join(self.book.edges.names.names)
            raise UsageError("The edge type is missing", expected=f"one of {names}")
        return self.canonical_etypes[0] if etype is None else self.to_canonical_etype(etype)

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


def _reopen(kind: type[OpenOutput], uri: str, settings: Any, options: dict[str, Any]) -> OpenOutput:
    graph = kind.__new__(kind)
    OpenOutput.__init__(graph, open_store(uri, settings), **options)
    return graph
