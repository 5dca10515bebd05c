"""A store with one folder on the local disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.split_store import keep_local


@pytest.fixture
def remote(s3_settings: StorageSettings, s3_root: str) -> Iterator[Store]:
    with open_store(s3_root, s3_settings) as store:
        yield store


def keys(store: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def test_a_local_store_is_returned_unchanged(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with keep_local(store, "scratch/buckets") as same:
        assert same is store


def test_the_folder_is_local_and_removed_with_the_context(remote: Store) -> None:
    with keep_local(remote, "scratch/buckets") as store:
        store.write_bytes("scratch/buckets/a", b"here")
        store.write_bytes("scratch/plan", b"there")
        path = store.local_copy("scratch/buckets/a")
        assert store.is_local("scratch/buckets/a") and not store.is_local("scratch/plan")
        assert keys(store) == keys(store, "scratch/") == ["scratch/buckets/a", "scratch/plan"]
        assert keys(remote) == ["scratch/plan"]
        assert store.read_range("scratch/buckets/a", 1, 3) == b"er"
        assert remote.uri in store.uri_of("scratch/plan")
    assert keys(remote) == ["scratch/plan"]
    assert not path.exists()


def test_remote_objects_in_the_folder_are_hidden_and_removed(remote: Store) -> None:
    remote.write_bytes("scratch/buckets/a", b"of a run that was killed")
    remote.write_bytes("scratch/buckets/b", b"of a run that was killed")
    with keep_local(remote, "scratch/buckets") as store:
        assert not store.exists("scratch/buckets/a") and keys(store) == []
        store.delete(["scratch/buckets/a"])
        assert keys(remote) == ["scratch/buckets/b"]
        store.delete(["scratch/buckets/b"])
        assert keys(remote) == []


def test_children_of_either_side(remote: Store) -> None:
    with keep_local(remote, "scratch/buckets") as store:
        store.write_bytes("scratch/buckets/a", b"here")
        store.write_bytes("scratch/plan", b"there")
        assert keys(store.child("scratch")) == ["buckets/a", "plan"]
        assert store.child("scratch/buckets").read_bytes("a") == b"here"
        assert store.child("scratch").read_bytes("buckets/a") == b"here"
        store.child("scratch").child("buckets").write_bytes("b", b"here too")
        assert keys(store) == ["scratch/buckets/a", "scratch/buckets/b", "scratch/plan"]
        assert keys(remote) == ["scratch/plan"]


def test_deferred_objects_are_in_their_store(remote: Store) -> None:
    with keep_local(remote, "scratch/buckets") as store:
        with store.background_uploads() as later:
            later.write_bytes("scratch/buckets/a", b"here")
            later.write_bytes("records/a", b"there")
        assert keys(remote) == ["records/a"]
        assert store.read_bytes("scratch/buckets/a") == b"here"
