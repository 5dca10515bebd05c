"""`StoredGraph`: the types, counts, edges and features of a finished output, as NumPy arrays.

`partition_ops.train.partitioned_graph` makes of it what DGL takes, and `partition_ops.train.pyg_stores` what
PyG takes. This module needs neither, nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.errors import UsageError
from partition_ops.storage import Store, open_store
from partition_ops.train.cache import CACHE_BYTES, CACHED_BYTES, BlockCache, Cache, default_cache_folder
from partition_ops.train.features import Access, FeatureRows, Features
from partition_ops.train.output_files import IdKind, OutputFiles, ResidentLimit
from partition_ops.train.sorted_edges import Direction, EdgeFiles, SortedEdges

Ids = npt.NDArray[np.int64]
EType = tuple[str, str, str]


class StoredGraph:
    """The graph of a finished output, which is not loaded.

    Its edges are memory-mapped, and its features are read row by row. Types are in DGL's order, by name.

    Arguments, errors, memory and disk are those of `partition_ops.train.partitioned_graph.PartitionedGraph`.
    """

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
        self._edges = EdgeFiles(self._files, ids, self._resident)
        self._edges.sorted("in")  # before a data loader forks its workers
        self.blocks = BlockCache(store, limit=row_cache_bytes)
        mapped: Access = "mapped" if resident_bytes is None else "read"  # a page holds few of the rows read
        access: Access = features or (mapped if self._files.is_local else "ranges")
        nodes = [self.book.nodes.count(t) for t in range(len(self.book.ntypes))]
        how = (access, self._resident, self.blocks)
        self._node_features = Features(self._files, "node", ids, nodes, *how)
        self._edge_features = Features(self._files, "edge", ids, self._edges.num_ids, *how)
        self._opened()
        self._own = set(vars(self)) - of_a_subclass | {"_own"}

    def _opened(self) -> None:
        """Make what a subclass needs of the open output."""

    def __reduce__(self) -> Any:
        output = self._files.output
        added = {name: value for name, value in vars(self).items() if name not in self._own}
        return _reopen, (type(self), output.uri, output.settings, self._options), added

    def __repr__(self) -> str:
        nodes = {name: self.num_nodes(name) for name in self.ntypes}
        edges = {etype: self.num_edges(etype) for etype in self.canonical_etypes}
        return f"{type(self).__name__}({self._files.output.uri!r}, num_nodes={nodes}, num_edges={edges})"

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
        return sorted(self.book.ntypes)

    @property
    def etypes(self) -> list[str]:
        """Relations, in DGL's order."""
        return [etype[1] for etype in self.canonical_etypes]

    @property
    def canonical_etypes(self) -> list[EType]:
        """Edge types as triples, in DGL's order."""
        return sorted(self.book.canonical_etypes)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.book.ntypes) == len(self.book.canonical_etypes) == 1

    def to_canonical_etype(self, etype: Any) -> EType:
        """Return the triple of a relation or of a triple."""
        return self.book.to_canonical_etype(etype)

    def num_nodes(self, ntype: str | None = None) -> int:
        """Return the number of nodes of a type, or of all types, in all partitions of the output."""
        return self.book.nodes.total if ntype is None else self.book.nodes.count(ntype)

    def num_edges(self, etype: Any = None) -> int:
        """Return the number of edges of a type, or of all types, that the open partitions own."""
        etypes = self.canonical_etypes if etype is None else [etype]
        return sum(len(self.adjacency("in", one).indices) for one in etypes)

    def adjacency(self, direction: Direction, etype: Any = None) -> SortedEdges:
        """Return the mapped edges of a type by destination (``in``) or by source (``out``)."""
        self._resident.check()
        return self._edges.sorted(direction)[self._edge_type_id(etype)]

    def owners(self, nodes: Ids, ntype: str | None = None) -> Ids:
        """Return the partition that owns each node of a type, (n,) int64, from (n,) int64 type-wise IDs."""
        found, _ = self._node_features.locator(self._node_type(ntype)).find(nodes)
        self._resident.check()
        return found

    def node_partition(self, nodes: Any, ntype: str | None = None) -> Any:
        """Return the partition that owns each node, (n,) int64 tensor."""
        import torch

        return torch.from_numpy(self.owners(torch.as_tensor(nodes).numpy(), ntype))

    def node_features(self, ntype: str | None = None) -> list[str]:
        """Return the names of the features of a node type."""
        return self._node_features.names(self._node_type(ntype))

    def edge_features(self, etype: Any = None) -> list[str]:
        """Return the names of the features of an edge type."""
        return self._edge_features.names(self._edge_type_id(etype))

    def node_rows(self, key: str, ntype: str | None = None) -> FeatureRows:
        """Return a node feature as NumPy rows."""
        return self._node_features.rows(key, self._node_type(ntype))

    def edge_rows(self, key: str, etype: Any = None) -> FeatureRows:
        """Return an edge feature as NumPy rows."""
        return self._edge_features.rows(key, self._edge_type_id(etype))

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


def _reopen(kind: type[StoredGraph], uri: str, settings: Any, options: dict[str, Any]) -> StoredGraph:
    graph = kind.__new__(kind)
    StoredGraph.__init__(graph, open_store(uri, settings), **options)
    return graph
