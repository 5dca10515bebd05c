"""A graph in the chunked format with reverse edges that its ``metadata.json`` does not name."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from partition_ops.chunked.metadata import METADATA, REVERSED, read_metadata_document, reverse_names
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.split_store import SplitStore
from partition_ops.system.temporary_folders import temporary_folder


@contextmanager
def with_reverses(graph: Store, *, wanted: bool = True) -> Iterator[Store]:
    """Yield a graph with a type of reverse edges for each edge type: ``dst:rev_rel:src``.

    Nothing is copied: reverse edges are read from the files of the edges. The type ``_N:_E:_N`` of
    homogeneous graphs gets its reverse edges itself. Types that have reverse edges stay as they are.

    Args:
        graph: Root of the graph.
        wanted: Otherwise, the graph is yielded as it is.

    Raises:
        InvalidInputError: ``metadata.json`` is missing or not JSON.
    """
    document = read_metadata_document(graph) if wanted else {}
    names = reverse_names(document) if wanted else {}
    if names == document.get(REVERSED, {}):
        yield graph
        return
    with temporary_folder() as scratch:
        own = LocalStore(Path(scratch))
        own.write_json(METADATA, {**document, REVERSED: names})
        yield _ReversedGraph(graph, METADATA, own)


class _ReversedGraph(SplitStore):
    """A store with another ``metadata.json``; nothing is written to it."""

    def _of(self, key: str) -> Store:
        return self._local if key == METADATA else self._store

    def uri_of(self, key: str) -> str:
        return self._store.uri_of(key)

    def child(self, prefix: str) -> Store:
        return self._store.child(prefix)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        return self._store.list(prefix)

    def stat(self, key: str) -> StoredObject | None:
        """Return size and tag of a file; that of ``metadata.json`` follows from the one of the graph."""
        return self._stated(key, self._store.stat(key))

    def stat_all(self, keys: Iterable[str]) -> builtins.list[StoredObject | None]:
        keys = [*keys]
        return [self._stated(key, found) for key, found in zip(keys, self._store.stat_all(keys), strict=True)]

    def _stated(self, key: str, found: StoredObject | None) -> StoredObject | None:
        own = self._local.stat(key) if key == METADATA else None
        return replace(found, size=own.size, tag=f"{found.tag}-reversed") if found and own else found

    def fetch_ahead(self, keys: Iterable[str], digests: Mapping[str, str] | None = None) -> None:
        self._store.fetch_ahead((key for key in keys if key != METADATA), digests)

    def names(self) -> builtins.list[str]:
        return self._store.names()
