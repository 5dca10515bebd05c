"""A finished output as a graph for DGL's data loaders, without loading it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from partition_ops.errors import UsageError
from partition_ops.storage import Store, open_store
from partition_ops.train.cache import CACHE_BYTES, Cache, default_cache_folder
from partition_ops.train.feature_files import Access
from partition_ops.train.graph_sampling import GraphSampling
from partition_ops.train.mapped import ResidentLimit
from partition_ops.train.ranges import CACHED_BYTES, BlockCache
from partition_ops.train.source import IdKind, OutputFiles


class PartitionedGraph(GraphSampling):
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
            blocks in memory. Where left out: ``ranges`` on S3, and on a local disk ``mapped``, or with
            `resident_bytes` ``read``.
        asynchronous: Read every feature of a batch in a thread of its own.
        resident_bytes: How much of the mapped files may be resident after each call, and while features are
            read; by default all that the kernel leaves there, since it takes it back when memory is short.
            DGL's kernels may map more for as long as they sample.
        row_cache_bytes: Memory for the blocks of ``ranges``.
        unpublished: Open an output that has been converted and has no manifest yet.

    Raises:
        InvalidInputError: The output is not finished, or a file is broken.
        UsageError: There is no such partition, or the cache is too small.
        TransientStorageError: A file is not what the manifest lists.

    Peak memory: `row_cache_bytes`, 64 MiB, and what a batch takes, besides mapped files. While the cache is
    filled, also 24 bytes a node of the largest type or partition. Disk: 32 bytes an edge and 8 bytes a node
    for each edge type in the cache; the largest ``graph.dgl`` while it is filled from S3; 16 bytes an edge
    more when out-edges are first asked for.
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
        folder = Path(cache) if cache else default_cache_folder()
        files = OutputFiles(
            store, self._options["parts"], Cache(folder, cache_bytes), unpublished=unpublished
        )
        mapped: Access = "mapped" if resident_bytes is None else "read"  # whole pages for a few rows are many
        access = features or (mapped if files.is_local else "ranges")
        blocks = BlockCache(store, limit=row_cache_bytes)
        super().__init__(files, ids, ResidentLimit(resident_bytes), blocks, access, asynchronous)

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


def _reopen(uri: str, settings: Any, options: dict[str, Any]) -> PartitionedGraph:
    return PartitionedGraph(open_store(uri, settings), **options)
