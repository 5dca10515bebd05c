"""A store with one folder on the local disk, for intermediate files that only one process reads."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import Artifact, NewObject, Store, StoredObject
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

    @property
    def canonical_uri(self) -> str:
        return self._store.canonical_uri

    def uri_of(self, key: str) -> str:
        return self._of(key).uri_of(key)

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

    def stat(self, key: str) -> StoredObject | None:
        return self._of(key).stat(key)

    def read_bytes(self, key: str) -> bytes:
        return self._of(key).read_bytes(key)

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        return self._of(key).read_range(key, begin, end)

    def local_copy(self, key: str) -> Path:
        return self._of(key).local_copy(key)

    def is_local(self, key: str) -> bool:
        return self._of(key).is_local(key)

    def create(self, key: str) -> AbstractContextManager[NewObject]:
        return self._of(key).create(key)

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        with self._store.background_uploads() as store:
            yield SplitStore(store, self._folder.rstrip("/"), self._local)

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True) -> bool:
        return self._of(key).compare_and_set(key, data, expected=expected, fenced=fenced)

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        return self._of(key).compare_and_delete(key, expected=expected, instead=instead)

    def without_takeover(self) -> AbstractContextManager[None]:
        return self._store.without_takeover()

    def write_first(self, key: str, data: bytes) -> Artifact:
        return self._of(key).write_first(key, data)

    def write_last(self, key: str, data: bytes, *, after: Iterable[str] = ()) -> None:
        self._of(key).write_last(key, data, after=after)

    def is_written(self, key: str, *, wait: bool = False) -> bool:
        return self._of(key).is_written(key, wait=wait)

    def above(self, levels: int) -> Store:
        return self._store.above(levels)

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

    def delete_empty(self, folder: str) -> None:
        self._of(f"{folder}/").delete_empty(folder)

    def delete_empty_folders(self, folder: str) -> None:
        self._of(f"{folder}/").delete_empty_folders(folder)

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        self._store.delete_unfinished(folders)

    def snapshot(self, *, but: Collection[str] = ()) -> AbstractContextManager[None]:
        return self._store.snapshot(but=but)

    def changed_elsewhere(self, keys: Iterable[str]) -> None:
        self._store.changed_elsewhere(keys)

    def close(self) -> None:
        """Do nothing: the callers close both stores."""
