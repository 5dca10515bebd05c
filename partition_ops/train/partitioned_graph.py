"""A finished output as a graph for DGL's data loaders, without loading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.id_converter import check_range
from partition_ops.errors import UsageError
from partition_ops.storage import Store, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.block_cache import CACHED_BYTES, BlockCache
from partition_ops.train.cache import CACHE_BYTES, Cache, default_cache_folder
from partition_ops.train.dgl_graphs import DglGraphs, Direction
from partition_ops.train.feature_rows import FeatureRows
from partition_ops.train.features import Access, Features
from partition_ops.train.mapped_files import ResidentLimit
from partition_ops.train.output_files import IdKind, OutputFiles
from partition_ops.train.storages import AsyncMemmapStorage, MemmapStorage

dgl = import_dgl()

EType = tuple[str, str, str]
Tensors = Any  # a tensor, or a dict of tensors by type


class PartitionedGraph:
    """The graph of a finished output, as ``dgl.dataloading.DataLoader`` and DGL's samplers take it.

    It has the methods of ``DGLGraph`` that they call in dgl 1.1.3, with the same arguments and results.
    Nothing of the graph is loaded: its edges are memory-mapped, sorted by destination and by type, and its
    features are read row by row. The sorted edges are made when the output is opened for the first time, into
    a cache that later openings, also by other processes, use again.

    IDs in and out are type-wise, as int64 tensors: *new* IDs, which count the nodes or edges of a type by
    partition as DGL's ``DistGraph`` does, or *original* IDs, those of the input. If validation dropped edges,
    the original edge IDs have holes.

    With some of the partitions, the graph has all nodes but only the edges that those partitions own: nodes
    of other partitions have no in-edges. Their features can be read.

    Pickling it, as data loader workers started by ``spawn`` do, opens it again by its URI. A subclass stays
    that subclass, and keeps the attributes that it added; its constructor is not called again.

    Args:
        output: Root of the output, a store or a URI: a local path or ``s3://…``.
        parts: Partitions to open; all if omitted.
        ids: ``new`` or ``original``.
        cache: Folder of the cache; ``~/.cache/partition-ops/train`` if omitted.
        cache_bytes: Limit of the cache on disk.
        features: ``mapped`` maps the feature files, ``read`` reads rows of them by system calls; both fetch
            whole files into the cache if they are on S3. ``ranges`` reads rows by range requests through
            blocks in memory. Default: ``ranges`` on S3; on a local disk ``mapped``, or ``read`` with
            `resident_bytes`.
        asynchronous: Read every feature of a batch in a thread of its own.
        resident_bytes: Limit of the resident bytes of mapped files, after each call and while features are
            read. Default: no limit; the kernel reclaims pages when memory is short. DGL's kernels may map
            more while they sample.
        row_cache_bytes: Memory for the blocks of ``ranges``.
        unpublished: Open an output that has been converted and has no manifest yet.

    Raises:
        InvalidInputError: The output is not finished, or a file is damaged.
        UsageError: A partition does not exist, or the cache is too small.
        TransientStorageError: A file is not what the manifest lists.

    Peak memory: `row_cache_bytes`, 64 MiB, and a batch, in addition to mapped files. While the cache is
    filled, also 24 bytes a node of the largest type or partition. Disk: 32 bytes an edge and 8 bytes a node
    for each edge type in the cache; while it is filled from S3, also the files of the graph of the largest
    partition; 16 bytes an edge more when out-edges are first asked for.
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
        access = features or (mapped if self._files.is_local else "ranges")
        nodes = [self.book.nodes.count(t) for t in range(len(self.book.ntypes))]
        how = (access, self._resident, self.blocks)
        self._node_features = Features(self._files, "node", ids, nodes, *how)
        self._edge_features = Features(self._files, "edge", ids, self._graphs.num_edge_ids, *how)
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

    def __enter__(self) -> PartitionedGraph:
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

    def sample_neighbors(
        self,
        seed_nodes: Tensors,
        fanout: int | Mapping[Any, int],
        edge_dir: Direction = "in",
        prob: str | None = None,
        replace: bool = False,
        exclude_edges: Tensors = None,
        output_device: Any = None,
        *,
        copy_ndata: bool = True,
        copy_edata: bool = True,
    ) -> Any:
        """Sample edges of each node, by ``dgl.sampling.sample_neighbors``.

        The arguments and their order are those of DGL's note on custom graphs. Others of DGL's function are
        passed by name.

        Args:
            seed_nodes: Type-wise IDs, a tensor or a dict by node type.
            fanout: Edges of each edge type for each node, -1 for all; or a dict with every edge type.
            edge_dir: ``in`` or ``out``.
            prob: Name of a scalar edge feature: edges are drawn in proportion to it, or a mask.
            replace: Draw with replacement.
            exclude_edges: Type-wise IDs of edges not to draw, a tensor or a dict by edge type.
            output_device: Device of the result.
            copy_ndata: Not used: features come through storages.
            copy_edata: Not used, for the same reason.

        Returns:
            A ``DGLGraph`` with all nodes and the edges that were drawn; their type-wise IDs, int64, are its
            edge data ``dgl.EID``. Peak memory: a multiple of that.

        Raises:
            InvalidIdError: There is no such node.
        """
        self._check_nodes(seed_nodes)
        frontier = dgl.sampling.sample_neighbors(
            self._graphs.get(edge_dir),
            seed_nodes,
            fanout,
            edge_dir=edge_dir,
            prob=None if prob is None else self._probability(prob),
            replace=replace,
            exclude_edges=self._canonical(exclude_edges),
        )
        return self._delivered(frontier, output_device)

    def in_subgraph(self, nodes: Tensors, *, output_device: Any = None, **_: Any) -> Any:
        """Return all in-edges of some nodes, as ``dgl.in_subgraph``; edge IDs as in `sample_neighbors`."""
        self._check_nodes(nodes)
        return self._delivered(dgl.in_subgraph(self._graphs.get("in"), nodes), output_device)

    def out_subgraph(self, nodes: Tensors, *, output_device: Any = None, **_: Any) -> Any:
        """Return all out-edges of some nodes, as ``dgl.out_subgraph``; edge IDs as in `sample_neighbors`."""
        self._check_nodes(nodes)
        return self._delivered(dgl.out_subgraph(self._graphs.get("out"), nodes), output_device)

    def edge_subgraph(
        self, seed_edges: Tensors, relabel_nodes: bool = False, output_device: Any = None
    ) -> Any:
        """Return some edges with all nodes, as ``DGLGraph.edge_subgraph``.

        The arguments and their order are those of DGL's note on custom graphs.

        Args:
            seed_edges: Type-wise edge IDs, a tensor or a dict by edge type.
            relabel_nodes: Keep only the nodes that the edges have, renumbered; then the node data ``dgl.NID``
                are their type-wise IDs.
            output_device: Device of the result.

        Returns:
            A ``DGLGraph``; its edge data ``dgl.EID`` are the type-wise IDs of the edges.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        by_type = seed_edges if isinstance(seed_edges, Mapping) else {self._etype(None): seed_edges}
        wanted = self._canonical(by_type)
        none = torch.empty(0, dtype=torch.int64)
        ids = {etype: torch.as_tensor(wanted.get(etype, none)) for etype in self.canonical_etypes}
        ends = {etype: self.find_edges(eids, etype) for etype, eids in ids.items()}
        found = dgl.heterograph(
            ends, {name: self.num_nodes(name) for name in self.ntypes}, idtype=torch.int64
        )
        if relabel_nodes:
            found = dgl.compact_graphs(found)
        for etype, eids in ids.items():
            found.edges[etype].data[dgl.EID] = eids
        return self._delivered(found, output_device)

    def find_edges(self, eid: Any, etype: Any = None) -> tuple[Any, Any]:
        """Return sources and destinations of some edges, (n,) tensors of type-wise IDs.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        found = self._graphs.find_edges(torch.as_tensor(eid), self._etype(etype))
        self._resident.check()
        return found

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Return whether an edge joins each pair, (n,) bool tensor."""
        found = self._graphs.has_edges(torch.as_tensor(u), torch.as_tensor(v), self._etype(etype))
        self._resident.check()
        return found

    def in_degrees(self, v: Any = None, etype: Any = None) -> Any:
        """Return the number of in-edges of nodes of the destination type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("in", v, self._etype(etype))

    def out_degrees(self, u: Any = None, etype: Any = None) -> Any:
        """Return the number of out-edges of nodes of the source type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("out", u, self._etype(etype))

    def global_uniform_negative_sampling(
        self,
        num_samples: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        etype: Any = None,
        redundancy: float | None = None,
    ) -> tuple[Any, Any]:
        """Draw pairs of nodes that no edge joins, as ``dgl.sampling.global_uniform_negative_sampling``.

        Args:
            num_samples: Number of pairs; there are fewer if the graph is dense, as in DGL.
            exclude_self_loops: Leave out pairs of a node with itself.
            replace: Allow the same pair several times.
            etype: Edge type.
            redundancy: Share of additional pairs to draw; derived from the density if omitted.

        Returns:
            (n,) sources and (n,) destinations, type-wise. Reproducible by ``torch.manual_seed``.
        """
        found = self._graphs.pairs_without_edge(
            num_samples,
            self._etype(etype),
            loops=not exclude_self_loops,
            repeat=replace,
            redundancy=redundancy,
        )
        self._resident.check()
        return found

    def _delivered(self, found: Any, device: Any) -> Any:
        """Return a sampled graph on the device where it is wanted."""
        self._resident.check()
        return found if device is None else found.to(device)

    def _probability(self, name: str) -> list[Any]:
        """Return an edge feature by edge ID for each edge type in DGL's order, as tensors or None."""
        if name not in self._probabilities:
            self._probabilities[name] = self._graphs.in_dgl_order(self._edge_features.scalars(name))
        return self._probabilities[name]

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


def _reopen(
    kind: type[PartitionedGraph], uri: str, settings: Any, options: dict[str, Any]
) -> PartitionedGraph:
    graph = kind.__new__(kind)
    PartitionedGraph.__init__(graph, open_store(uri, settings), **options)
    return graph
