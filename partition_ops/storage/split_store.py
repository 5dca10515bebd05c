"""A store with one folder on the local disk, for intermediate files that only one process reads."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import Artifact, Store, StoredObject
from partition_ops.system.temporary_folders import temporary_folder


@contextmanager
def keep_local(store: Store, folder: str) -> Iterator[Store]:
    """Yield a store that keeps the objects below ``folder`` in a temporary folder of this machine.

    They are removed at the end of the context. docs/decisions/tricks.md has what this saves.

    Args:
        store: The store; a local one is returned unchanged.
        folder: Prefix of the keys, without a ``/`` at the end.
    """
    if isinstance(store, LocalStore):
        yield store
        return
    with temporary_folder() as path:
        yield SplitStore(store, folder, LocalStore(Path(path)))


def _by_key(name: str) -> Any:
    """Return a method that the store of the key, its first argument, answers."""

    def method(self: SplitStore, key: str, *arguments: Any, **more: Any) -> Any:
        return getattr(self._of(key), name)(key, *arguments, **more)

    return method


def _by_folder(name: str) -> Any:
    """Return a method that the store of the objects below a folder answers."""

    def method(self: SplitStore, folder: str) -> Any:
        return getattr(self._of(f"{folder}/"), name)(folder)

    return method


def _remote(name: str) -> Any:
    """Return a method that the remote store answers."""

    def method(self: SplitStore, *arguments: Any, **more: Any) -> Any:
        return getattr(self._store, name)(*arguments, **more)

    return method


class SplitStore(Store):
    """A store that reads and writes the objects below one folder in a local store, and all others remotely.

    Objects of the remote store below the folder are hidden, but deletions remove them too.

    Args:
        store: Store of the objects outside of the folder.
        folder: Prefix of the keys, without a ``/`` at the end.
        local: Store of the objects below the folder, with the same keys.
    """

    def __init__(self, store: Store, folder: str, local: LocalStore) -> None:
        super().__init__(store.uri)
        self._store = store
        self._folder = f"{folder}/"
        self._local = local
        self.settings = store.settings
        self.fenced = store.fenced  # others do not see the local folder, which needs no fence

    def _of(self, key: str) -> Store:
        return self._local if key.startswith(self._folder) else self._store

    uri_of, stat, is_local, create = map(_by_key, ("uri_of", "stat", "is_local", "create"))
    read_bytes, read_range = map(_by_key, ("read_bytes", "read_range"))
    local_copy, checked_copy = map(_by_key, ("local_copy", "checked_copy"))
    write_first, write_last, is_written = map(_by_key, ("write_first", "write_last", "is_written"))
    compare_and_set, compare_and_delete = map(_by_key, ("compare_and_set", "compare_and_delete"))
    delete_empty, delete_empty_folders = map(_by_folder, ("delete_empty", "delete_empty_folders"))
    above, snapshot, without_takeover = map(_remote, ("above", "snapshot", "without_takeover"))
    changed_elsewhere, delete_unfinished = map(_remote, ("changed_elsewhere", "delete_unfinished"))

    @property
    def canonical_uri(self) -> str:
        return self._store.canonical_uri

    @property
    def settle_seconds(self) -> float:
        return self._store.settle_seconds

    def child(self, prefix: str) -> Store:
        if f"{prefix}/".startswith(self._folder):
            return self._local.child(prefix)
        if self._folder.startswith(f"{prefix}/"):
            below = self._folder.removeprefix(f"{prefix}/").rstrip("/")
            return SplitStore(self._store.child(prefix), below, self._local.child(prefix))
        return self._store.child(prefix)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        found = [] if prefix.startswith(self._folder) else list(self._store.list(prefix))
        outside = [entry for entry in found if not entry.key.startswith(self._folder)]
        yield from sorted([*outside, *self._local.list(prefix)], key=lambda entry: entry.key)

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        with self._store.background_uploads() as store:
            yield SplitStore(store, self._folder.rstrip("/"), self._local)

    def names(self) -> builtins.list[str]:
        local = [self._folder.split("/")[0]] if any(True for _ in self._local.list(self._folder)) else []
        return sorted({*self._store.names(), *local})

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        return self._of(key).copy_from(other, key, size)

    def share(self, artifact: Artifact, key: str) -> Artifact:
        store = self._of(key)
        return store.share(artifact, key) if store is self._of(artifact.key) else super().share(artifact, key)

    def delete(self, keys: Iterable[str]) -> None:
        keys = [*keys]
        self._local.delete(key for key in keys if key.startswith(self._folder))
        self._store.delete(keys)
