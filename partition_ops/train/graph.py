"""A finished output as a graph for DGL's data loaders, without loading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from partition_ops import artifacts
from partition_ops.dgl_import import import_dgl
from partition_ops.errors import UsageError
from partition_ops.graph.id_values import check_range
from partition_ops.storage import Store, open_store
from partition_ops.train.cache import CACHE_BYTES, Cache, default_cache_folder
from partition_ops.train.columns import edge_columns
from partition_ops.train.csr_graphs import DglGraphs, Direction
from partition_ops.train.feature_files import Access, FeatureFiles
from partition_ops.train.features import FeatureRows
from partition_ops.train.mapped import ResidentLimit
from partition_ops.train.negatives import non_edges
from partition_ops.train.ranges import CACHED_BYTES, BlockCache
from partition_ops.train.source import IdKind, OutputFiles
from partition_ops.train.storages import AsyncMemmapStorage, MemmapStorage

dgl = import_dgl()

EType = tuple[str, str, str]
Tensors = Any  # a tensor, or a dict of tensors by type


class PartitionedGraph:
    """The graph of a finished output, as ``dgl.dataloading.DataLoader`` and DGL's samplers take it.

    It has the methods of ``DGLGraph`` that they call in dgl 1.1.3, with the same arguments and results.
    Nothing of the graph is loaded: its edges are memory-mapped, sorted by destination and by type, and its
    features are read row by row. The sorted edges are made when the output is opened for the first time,
    into a cache that later openings, also of other processes, find again.

    IDs in and out are type-wise, as int64 tensors: *new* IDs, which count the nodes or edges of a type by
    partition as DGL's ``DistGraph`` does, or *original* IDs, those of the input. Of an output that
    validation dropped edges from, the original edge IDs have holes.

    With some of the partitions, the graph has all nodes but only the edges that those partitions own: nodes
    of others have no in-edges. Their features can be read.

    Pickling it, as data loader workers started by ``spawn`` do, opens it again by its URI.

    Args:
        output: Root of the output, a store or a URI: a local path or ``s3://…``.
        parts: Partitions to open; all where left out.
        ids: ``new`` or ``original``.
        cache: Folder of the cache; ``~/.cache/partition-ops/train`` where left out.
        cache_bytes: Limit of the cache on disk.
        features: ``mapped`` maps the feature files, ``read`` reads rows of them by system calls; both fetch
            whole files into the cache where they are on S3. ``ranges`` reads rows by range requests through
            blocks in memory. Where left out: ``mapped`` on a local disk, ``ranges`` on S3.
        asynchronous: Read every feature of a batch in a thread of its own.
        resident_bytes: How much of the mapped files may be resident after each call, and while features are
            read; by default all that the kernel leaves there, since it takes it back when memory is short.
            DGL's kernels may map more for as long as they sample.
        row_cache_bytes: Memory for the blocks of ``ranges``.

    Raises:
        InvalidInputError: The output is not finished, or a file is broken.
        UsageError: There is no such partition, or the cache is too small.
        TransientStorageError: A file is not what the manifest lists.

    Peak memory: `row_cache_bytes`, 64 MiB, and what a batch takes, besides mapped files. While the cache is
    filled, also 24 bytes a node of the largest type or partition. Disk: 32 bytes an edge and 8 bytes a node
    for each edge type in the cache; the largest ``graph.dgl`` while it is filled from S3; 16 bytes an edge
    more when out-edges are first asked for.
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
    ) -> None:
        if ids not in ("new", "original"):
            raise UsageError("There are no such IDs", found=repr(ids), expected="'new' or 'original'")
        store = open_store(output) if isinstance(output, str) else output
        self._options: dict[str, Any] = {
            "parts": None if parts is None else tuple(parts),
            "ids": ids,
            "cache": cache,
            "cache_bytes": cache_bytes,
            "features": features,
            "asynchronous": asynchronous,
            "resident_bytes": resident_bytes,
            "row_cache_bytes": row_cache_bytes,
        }
        self.ids: IdKind = ids
        folder = Path(cache) if cache else default_cache_folder()
        self._files = OutputFiles(store, self._options["parts"], Cache(folder, cache_bytes))
        self._resident = ResidentLimit(resident_bytes)
        self.blocks = BlockCache(store, limit=row_cache_bytes)
        self._graphs = DglGraphs(self._files, ids, self._resident)
        self._in = self._graphs.get("in")  # before a data loader forks its workers
        access = features or ("mapped" if self._files.is_local else "ranges")
        nodes = [self.book.nodes.count(t) for t in range(len(self.book.ntypes))]
        self._node_features = FeatureFiles(
            self._files, "node", ids, nodes, access, self._resident, self.blocks
        )
        self._edge_features = FeatureFiles(
            self._files, "edge", ids, self._graphs.num_edge_ids, access, self._resident, self.blocks
        )
        self._storage = AsyncMemmapStorage if asynchronous else MemmapStorage
        self._probabilities: dict[str, list[Any]] = {}

    def __reduce__(self) -> Any:
        return _reopen, (self._files.output.uri, self._files.output.settings, self._options)

    def __repr__(self) -> str:
        nodes = {name: self.num_nodes(name) for name in self.ntypes}
        edges = {etype: self.num_edges(etype) for etype in self.canonical_etypes}
        return f"PartitionedGraph({self._files.output.uri!r}, num_nodes={nodes}, num_edges={edges})"

    def __enter__(self) -> PartitionedGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the cache drop what this graph uses, when it needs the room."""
        self._files.close()

    # the types

    @property
    def book(self) -> Any:
        """The `PartitionBook`: partitions of nodes and edges, and the way between new and original IDs."""
        return self._files.book

    @property
    def config_sha256(self) -> str:
        """SHA-256 of the partition config: another one is another partitioning."""
        return self._files.sha256(artifacts.partition_config(self.book.graph_name))

    @property
    def parts(self) -> tuple[int, ...]:
        """The partitions that are open."""
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
        """The triple of a relation or of a triple."""
        return self.book.to_canonical_etype(etype)  # type: ignore[no-any-return]

    def get_ntype_id(self, ntype: str | None) -> int:
        return int(self._in.get_ntype_id(ntype))

    def get_etype_id(self, etype: Any) -> int:
        return int(self._in.get_etype_id(etype))

    def num_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of a type, or of all types; those of partitions that are not open included."""
        return self.book.nodes.total if ntype is None else self.book.nodes.count(ntype)  # type: ignore[no-any-return]

    def num_edges(self, etype: Any = None) -> int:
        """Number of edges of a type, or of all types, that the open partitions own."""
        return int(
            self._in.num_edges() if etype is None else self._in.num_edges(self.to_canonical_etype(etype))
        )

    number_of_nodes = num_nodes
    number_of_edges = num_edges

    # sampling

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

    # edges by ID

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

    # features

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

    # within

    def _node_type(self, ntype: str | None) -> int:
        names = self.book.nodes.names
        if ntype is None and len(names) > 1:
            raise UsageError("The node type is missing", expected="one of " + ", ".join(names.names))
        return 0 if ntype is None else int(names.id_of(ntype))

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
            name = self.book.nodes.names.names[type_id]
            what = f"The {self.ids} ID of node type {name!r}"
            check_range(torch.as_tensor(ids).numpy(), self.book.nodes.count(type_id), what)

    def _probability(self, name: str) -> list[Any]:
        """For each edge type in DGL's order, the feature by edge ID as a tensor, or None."""
        if name not in self._probabilities:
            columns = edge_columns(
                self._files, self._edge_features, name, self.ids, self._graphs.num_edge_ids, self._resident
            )
            self._probabilities[name] = self._graphs.in_dgl_order(columns)
        return self._probabilities[name]


def _reopen(uri: str, settings: Any, options: dict[str, Any]) -> PartitionedGraph:
    return PartitionedGraph(open_store(uri, settings), **options)
