"""Uploads in the background, and in parts."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter, Task
from partition_ops.errors import StorageError
from partition_ops.storage import StorageSettings
from partition_ops.storage.s3_client import AT_A_TIME
from partition_ops.storage.s3_store import S3Store
from partition_ops.storage.s3_transfers import _part_bytes
from partition_ops.storage.store import StoredObject


@pytest.fixture
def store(s3_settings: StorageSettings, s3_root: str) -> S3Store:
    bucket, prefix = s3_root.removeprefix("s3://").split("/")
    return S3Store(bucket, prefix, settings=s3_settings)


@pytest.fixture
def gate(store: S3Store) -> threading.Event:
    """Yield an event for which all requests that write an object wait."""
    opened = threading.Event()

    def hold(request: Any, **given: Any) -> None:
        if request.method == "PUT":
            opened.wait(120)

    store._client.meta.events.register("before-send.s3", hold)
    return opened


@pytest.mark.parametrize(
    ("size", "tag", "expected"),
    [
        (1 << 20, "0" * 32, None),
        (300 << 20, "0" * 32 + "-2", 256 << 20),
        (300 << 20, "0" * 32 + "-3", 128 << 20),
        (200 << 20, "0" * 32 + "-2", 128 << 20),
        (300 << 20, "0" * 32 + "-19", 16 << 20),
    ],
)
def test_parts_of_earlier_versions_are_known(
    store: S3Store, size: int, tag: str, expected: int | None
) -> None:
    """Without a request: there is no such object."""
    assert _part_bytes(store._place("none"), StoredObject("none", size, tag, 0.0)) == expected


def refuse_writing(store: S3Store) -> None:
    """Make the server reject every upload by a wrong signature."""

    def spoil(request: Any, **given: Any) -> None:
        if request.method == "PUT" and "/refused" in request.url:
            request.headers["Authorization"] = request.headers["Authorization"][:-4] + b"0000"

    store._client.meta.events.register("before-send.s3", spoil)


def test_reads_wait_for_uploads(store: S3Store, gate: threading.Event) -> None:
    with store.background_uploads() as deferring:
        deferring.child("x").write_bytes("a", b"12")
        threading.Timer(0.3, gate.set).start()
        assert not gate.is_set()
        assert store.read_bytes("x/a") == b"12"  # through another store of the same connection
        assert gate.is_set()
    assert [entry.key for entry in store.list()] == ["x/a"]


@pytest.mark.parametrize("use", ["stat", "list", "local_copy", "delete", "again"])
def test_every_method_waits_for_the_upload(store: S3Store, gate: threading.Event, use: str) -> None:
    with store.background_uploads() as deferring:
        deferring.write_bytes("a", b"12")
        threading.Timer(0.2, gate.set).start()
        if use == "stat":
            assert store.stat("a") is not None
        elif use == "list":
            assert [entry.size for entry in store.list()] == [2]
        elif use == "local_copy":
            assert store.local_copy("a").read_bytes() == b"12"
        elif use == "delete":
            store.delete(["a"])
        else:
            deferring.write_bytes("a", b"345")
    assert [entry.size for entry in store.list()] == {"delete": [], "again": [3]}.get(use, [2])


def test_the_number_of_waiting_files_is_limited(store: S3Store, gate: threading.Event) -> None:
    written = []

    def write() -> None:
        with store.background_uploads() as deferring:
            for number in range(AT_A_TIME + 3):
                deferring.write_bytes(f"{number}", b"1")
                written.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(1.0)
    assert len(written) == AT_A_TIME
    gate.set()
    thread.join()
    assert len(list(store.list())) == AT_A_TIME + 3


def test_a_task_whose_upload_fails_leaves_no_record(store: S3Store) -> None:
    refuse_writing(store)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        task.write_json("refused", 1)
        task.write_json("taken", 2)
        return {}

    with pytest.raises(StorageError, match="refused"):
        Task("some", store, work).run()
    assert not store.exists(layout.record("some"))
    assert store.exists("taken")  # a repetition of the task overwrites it


def test_the_first_error_is_raised(store: S3Store) -> None:
    refuse_writing(store)
    with pytest.raises(ZeroDivisionError), store.background_uploads() as deferring:
        deferring.write_bytes("refused", b"1")
        _ = 1 / 0


def test_a_copy_is_kept_if_it_will_be_read_again(store: S3Store) -> None:
    for again in (False, True):
        with store.create("a") as new:
            new.path.write_bytes(b"0123456789")
            new.keep_copy = again
            written = new.path
        requests: list[str] = []
        store._client.meta.events.register(
            "before-send.s3", lambda request, seen=requests, **given: seen.append(request.method)
        )
        assert not written.exists()
        assert store.read_range("a", 2, 5) == b"234"
        assert requests == ([] if again else ["GET", "GET"])  # over plain HTTP, two reads must be equal
    store.write_bytes("a", b"new")
    assert store.local_copy("a").read_bytes() == b"new"


@pytest.mark.parametrize("background", [True, False])
def test_the_server_copies_a_shared_object(
    store: S3Store, gate: threading.Event, *, background: bool
) -> None:
    """It waits for the upload of the first; nothing is sent twice."""
    sent: list[int] = []

    def note(request: Any, **given: Any) -> None:
        sent.append(int(request.headers.get("Content-Length", 0)))

    store._client.meta.events.register("before-send.s3", note)
    threading.Timer(0.2, gate.set).start()
    with ExitStack() as stack:
        writing = stack.enter_context(store.background_uploads()) if background else store
        first = writing.write_bytes("a", bytes(100_000))
        shared = writing.share(first, "b/c")
    assert (shared.key, shared.size, shared.sha256) == ("b/c", 100_000, first.sha256)
    assert store.read_bytes("b/c") == bytes(100_000)
    assert sum(length >= 100_000 for length in sent) == 1
