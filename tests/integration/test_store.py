"""The interface of stores, on a local folder and on a real S3 server."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from partition_ops.errors import InvalidInputError, PartitionOpsError, StorageError
from partition_ops.storage import Artifact, StorageSettings, Store, open_store
from tests.conftest import BUCKET

HELLO_SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.fixture(scope="module")
def bucket(s3_settings: StorageSettings) -> Iterator[Store]:
    """Return a store for the whole bucket, shared because connecting takes a tenth of a second."""
    with open_store(f"s3://{BUCKET}", s3_settings) as opened:
        yield opened


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return open_store(str(tmp_path / "root"))
    bucket: Store = request.getfixturevalue("bucket")
    return bucket.child(secrets.token_hex(8))


def keys(store: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def test_compare_and_set_writes_only_over_the_expected_content(store: Store) -> None:
    assert store.compare_and_set("lock.json", b"a", expected=None)
    assert not store.compare_and_set("lock.json", b"b", expected=None)
    assert not store.compare_and_set("lock.json", b"b", expected=b"x")
    assert store.read_bytes("lock.json") == b"a"
    assert store.compare_and_set("lock.json", b"b", expected=b"a")
    assert store.read_bytes("lock.json") == b"b"
    assert not store.compare_and_set("gone.json", b"b", expected=b"a")
    assert not store.exists("gone.json")


@pytest.mark.parametrize("expected", [None, b"old"])
def test_one_of_many_concurrent_compare_and_set_calls_succeeds(store: Store, expected: bytes | None) -> None:
    if expected:
        store.write_bytes("lock.json", expected)
    offers = [f"caller {number}".encode() for number in range(8)]
    barrier = threading.Barrier(len(offers))

    def offer(data: bytes) -> bool:
        barrier.wait()
        return store.compare_and_set("lock.json", data, expected=expected)

    with ThreadPoolExecutor(len(offers)) as pool:
        results = list(pool.map(offer, offers))
    assert results.count(True) == 1
    assert store.read_bytes("lock.json") == offers[results.index(True)]


class Interrupted(Exception):
    pass


def test_objects_are_read_back(store: Store) -> None:
    artifact = store.write_bytes("a/b.txt", b"hello")
    assert artifact == Artifact("a/b.txt", 5, HELLO_SHA256)
    assert store.read_bytes("a/b.txt") == b"hello"
    assert store.local_copy("a/b.txt").read_bytes() == b"hello"
    entry = store.stat("a/b.txt")
    assert entry is not None and (entry.key, entry.size) == ("a/b.txt", 5)
    assert list(store.list()) == [entry]


def test_an_empty_object_is_an_object(store: Store) -> None:
    assert store.write_bytes("empty", b"").size == 0
    assert store.exists("empty")
    assert store.read_bytes("empty") == b""
    assert store.local_copy("empty").read_bytes() == b""


def test_an_object_of_many_parts_comes_back_whole(store: Store) -> None:
    data = np.arange(10_000_000, dtype="<u4").tobytes()  # three parts
    store.write_bytes("big.bin", data)
    assert store.local_copy("big.bin").read_bytes() == data
    assert store.read_bytes("big.bin") == data


def test_the_tag_changes_with_the_content(store: Store) -> None:
    store.write_bytes("a", b"one")
    before = store.stat("a")
    store.write_bytes("a", b"two!")
    after = store.stat("a")
    assert before is not None and after is not None and before.tag != after.tag


def test_keys_are_listed_in_their_order(store: Store) -> None:
    names = ["p/a", "p-a", "p/b/c", "p.a", "P/z", "q", "p/é ü+%", "p0/x"]
    for name in names:
        store.write_bytes(name, b"1")
    assert keys(store) == sorted(names)
    assert keys(store, "p/") == ["p/a", "p/b/c", "p/é ü+%"]
    assert keys(store, "p") == sorted(name for name in names if name.startswith("p"))
    assert keys(store, "nothing") == []


def test_more_objects_than_one_page_are_listed_and_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.storage.s3_store.DELETE_AT_ONCE", 7)
    names = [f"n/{number:02}" for number in range(20)]
    for name in names:
        store.write_bytes(name, b"1")
    assert keys(store) == names
    store.delete(names)
    assert keys(store) == []


def test_deleting_a_missing_object_is_ignored(store: Store) -> None:
    store.write_bytes("a", b"1")
    store.write_bytes("b", b"2")
    store.delete(["a", "never"])
    assert keys(store) == ["b"]


def test_a_child_sees_its_part_of_the_parent(store: Store) -> None:
    child = store.child("x").child("y")
    child.write_bytes("z", b"1")
    assert keys(store) == ["x/y/z"]
    assert keys(child) == ["z"]
    assert child.uri == f"{store.uri}/x/y"
    child.close()
    assert store.read_bytes("x/y/z") == b"1"


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failed_write_leaves_the_old_object(store: Store, before: bytes | None) -> None:
    if before is not None:
        store.write_bytes("a", before)
    with pytest.raises(Interrupted), store.create("a") as new:
        new.path.write_bytes(b"half")
        raise Interrupted
    assert keys(store) == ([] if before is None else ["a"])
    assert before is None or store.read_bytes("a") == before


def test_nothing_is_seen_before_the_end_of_a_write(store: Store) -> None:
    with store.create("a") as new:
        new.path.write_bytes(b"half")
        assert keys(store) == [] and not store.exists("a")
    assert keys(store) == ["a"]


def test_writing_no_file_is_an_error(store: Store) -> None:
    with pytest.raises(StorageError), store.create("a"):
        pass
    assert keys(store) == []


@pytest.mark.parametrize("read", ["read_bytes", "local_copy", "read_json"])
def test_a_missing_object_is_named(store: Store, read: str) -> None:
    store.write_bytes("there/a", b"1")
    assert store.stat("there/b") is None
    with pytest.raises(InvalidInputError, match="there/b"):
        getattr(store, read)("there/b")


@pytest.mark.parametrize("key", ["", "/a", "../a", "a/../../b", "a//b", "./a", "a/", "a\\b", "a\0b", ".."])
@pytest.mark.parametrize("use", ["read_bytes", "local_copy", "stat", "child", "delete", "create"])
def test_a_key_cannot_leave_its_root(store: Store, key: str, use: str) -> None:
    with pytest.raises(InvalidInputError):
        if use == "create":
            store.write_bytes(key, b"1")
        else:
            getattr(store, use)([key] if use == "delete" else key)


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000, b""])
def test_broken_json_is_bad_input(store: Store, data: bytes) -> None:
    store.write_bytes("a.json", data)
    with pytest.raises(InvalidInputError, match=r"a\.json is not valid JSON"):
        store.read_json("a.json")


def test_threads_share_a_store(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.write_bytes(f"n{number:02}", bytes([number])), range(24)))
        read = list(pool.map(lambda number: store.local_copy(f"n{number:02}").read_bytes(), range(24)))
    assert read == [bytes([number]) for number in range(24)]


@pytest.mark.parametrize("uri", ["", "s3://", "s3:///a", "ftp://host/a", "s3://bucket/a/../../b"])
def test_a_wrong_uri_is_wrong_use(uri: str) -> None:
    with pytest.raises(PartitionOpsError) as caught:
        open_store(uri)
    assert caught.value.exit_code == 2
