"""Snapshots of S3 roots: few requests, changes of others are noticed, and a lost lock too."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.s3_jobs import RequestCounter
from partition_ops.artifacts import layout, lock_fence
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.tasks import ArtifactWriter, Task
from partition_ops.cli import main
from partition_ops.errors import (
    ConflictError,
    InvalidInputError,
    StorageError,
    TransientStorageError,
    UsageError,
)
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_graph
from partition_ops.storage import StorageSettings, Store, open_store, s3_client
from partition_ops.storage.s3_reader import S3Reader
from partition_ops.storage.uris import ListingAhead
from tests.graphs import library
from tests.uploads import upload_folder


@pytest.fixture
def store(s3_settings: StorageSettings, s3_root: str) -> Store:
    return open_store(s3_root, s3_settings)


@pytest.fixture
def other(s3_settings: StorageSettings, s3_root: str) -> Store:
    """Somebody else at the same place."""
    return open_store(s3_root, s3_settings)


def test_a_job_sends_few_requests(s3_settings: StorageSettings, s3_root: str, tmp_path: Path) -> None:
    """One for each file that it reads and writes, and a few more."""
    graph = library().write(tmp_path / "graph")
    with open_store(f"{s3_root}/in", s3_settings) as source:
        files = upload_folder(graph, source)
    config = RunConfig(num_parts=2, engine="random", ignore_estimate=True)
    with RequestCounter().counting() as seen:
        run_graph(config, f"{s3_root}/in", f"{s3_root}/out", settings=s3_settings)
    verbs: Counter[str] = Counter()
    for (verb, _), count in seen.items():
        verbs[verb] += count
    with open_store(f"{s3_root}/out", s3_settings) as store:
        written = sum(1 for _ in store.list())
    locks = sum(count for (verb, key), count in seen.items() if verb == "GET" and key.endswith("lock.json"))
    assert verbs["HEAD"] <= 12 and verbs["LIST"] <= 8, seen
    assert verbs["GET"] - locks <= files + 16, seen
    assert locks <= 28 and verbs["PUT"] <= written + 8, seen
    assert verbs["POST"] <= 2, seen


def test_the_command_lists_its_input_once(
    s3_settings: StorageSettings, s3_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it begins the job; over plain HTTP that takes two requests."""
    with open_store(f"{s3_root}/in", s3_settings) as source:
        upload_folder(library().write(tmp_path / "graph"), source)
    options = ["--num-parts", "2", "--engine", "random", "--ignore-estimate"]
    for name, value in {
        "AWS_ENDPOINT_URL": s3_settings.endpoint_url,
        "AWS_ACCESS_KEY_ID": s3_settings.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_settings.secret_key,
        "AWS_DEFAULT_REGION": s3_settings.region or "us-east-1",
    }.items():
        monkeypatch.setenv(name, str(value))
    ahead: list[str] = []
    list_ahead = S3Reader.list_ahead

    def noted(reader: S3Reader) -> None:
        ahead.append(reader.uri)
        list_ahead(reader)

    monkeypatch.setattr(S3Reader, "list_ahead", noted)
    with RequestCounter().counting() as seen:
        assert main(["run", f"{s3_root}/in", f"{s3_root}/out", *options]) == 0
    assert ahead == [f"{s3_root}/in"]
    prefix = f"{s3_root.removeprefix('s3://').partition('/')[2]}/in/"
    assert seen["LIST", prefix] == 2, seen


def test_a_snapshot_answers_without_requests(store: Store) -> None:
    store.write_bytes("a", b"1")
    with store.snapshot(), RequestCounter().counting() as seen:
        seen.clear()
        child = store.child("x")
        assert child.write_bytes("b", b"22").size == 2
        assert [entry.key for entry in store.list()] == ["a", "x/b"] and store.names() == ["a", "x"]
        assert store.exists("a") and not store.exists("c")
        assert store.read_if_there("c") is None and child.read_bytes("b") == b"22"
        assert store.local_copy("x/b").read_bytes() == b"22" and store.read_range("x/b", 1, 2) == b"2"
        with pytest.raises(InvalidInputError, match="There is no object"):
            store.read_bytes("c")
        store.delete(["c", "x/c"])
        assert sum(seen.values()) == 1  # the upload
        assert store.read_bytes("a") == store.read_bytes("a") == b"1"
        store.delete(["a"])
        assert not store.exists("a") and store.names() == ["x"]
        assert sum(seen.values()) == 3


def test_a_snapshot_takes_the_listing_that_has_begun(store: Store) -> None:
    store.write_bytes("a", b"1")
    with RequestCounter().counting() as seen:
        store.list_ahead()
        with store.snapshot():
            assert [entry.key for entry in store.list()] == ["a"]
        listings = sum(seen.values())
        store.write_bytes("b", b"2")
        with store.snapshot():
            assert [entry.key for entry in store.list()] == ["a", "b"]
    assert listings == 2  # over plain HTTP


def test_a_listing_ahead_that_fails_is_as_one_that_fails_now(s3_settings: StorageSettings) -> None:
    store = open_store("s3://no-such-bucket/graph", s3_settings)
    store.list_ahead()
    with store.snapshot(), pytest.raises(StorageError, match="no-such-bucket"):
        store.read_bytes("a")


def test_a_root_that_is_listed_ahead_is_opened_once(s3_settings: StorageSettings, s3_root: str) -> None:
    opener = ListingAhead(s3_settings)
    opener.list("s3:///no-bucket")  # opening it says so
    opener.list("no/such/folder")
    with RequestCounter().counting() as seen:
        opener.list(s3_root)
        with opener(s3_root) as first, first.snapshot():
            assert sum(seen.values()) == 2  # of the listing that has begun
    assert opener(s3_root) is not first
    opener.close()
    with pytest.raises(UsageError, match="no bucket"):
        opener("s3:///no-bucket")


READS: dict[str, Callable[[Store], object]] = {
    "whole": lambda store: store.read_bytes("a"),
    "part": lambda store: store.read_range("a", 0, 2),
    "large part": lambda store: store.read_range("large", 0, 2),
    "copy": lambda store: store.local_copy("large"),
}


@pytest.mark.parametrize("use", READS)
def test_an_input_that_others_change_is_noticed(store: Store, other: Store, use: str) -> None:
    for key in ("a", "large"):
        store.write_bytes(key, bytes(3 << 20 if key == "large" else 3))
    with store.snapshot():
        for key in ("a", "large"):
            other.write_bytes(key, b"another")
        with pytest.raises(TransientStorageError, match="changed while it was downloaded"):
            READS[use](store)
    READS[use](store)


def test_an_input_that_others_remove_is_missing(store: Store, other: Store) -> None:
    store.write_bytes("a", b"1")
    with store.snapshot():
        other.delete(["a"])
        with pytest.raises(InvalidInputError, match="There is no object"):
            store.read_bytes("a")


def test_what_another_process_wrote_is_read(store: Store, other: Store) -> None:
    with store.snapshot():
        other.write_bytes("a", b"1")
        assert not store.exists("a")
        store.changed_elsewhere(["a"])
        assert store.exists("a") and store.read_bytes("a") == b"1"


def test_a_user_who_cannot_list_can_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_bytes("a", b"1")

    def refuse(params: object, **more: object) -> None:
        raise TransientStorageError("no")

    events = store._client.meta.events  # type: ignore[attr-defined]
    events.register("before-call.s3.ListObjectsV2", refuse)
    with store.snapshot(), RequestCounter().counting() as seen:
        assert store.exists("a") and store.exists("a") and not store.exists("b")
        assert store.read_bytes("a") == store.read_bytes("a") == b"1"
    assert seen["HEAD", next(key for verb, key in seen if verb == "HEAD" and key.endswith("/a"))] == 1


def test_a_lost_lock_is_noticed_after_a_short_time(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the lock holds for `FRESH_SECONDS`; a record is never written without a check."""
    with pytest.raises(ConflictError), locked(store):
        store.write_bytes("a", b"1")
        lock = other.read_json(layout.LOCK)
        other.write_json(layout.LOCK, {**lock, "token": lock["token"] + 1})
        with pytest.raises(ConflictError, match="taken over"):
            store.write_first("records/a.json", b"{}")
        store.write_bytes("b", b"1")  # the fence has found that the lock is lost
    assert not other.exists("b") and not other.exists("records/a.json")


@pytest.mark.parametrize("clock", [0, 1], ids=["clock of the system", "clock since the start"])
def test_a_suspension_ends_a_check(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch, clock: int
) -> None:
    later = [0.0, 0.0]
    clocks = lock_fence._clocks
    monkeypatch.setattr(lock_fence, "_clocks", lambda: tuple(map(sum, zip(clocks(), later, strict=True))))
    with pytest.raises(ConflictError, match="taken over"), locked(store):
        store.write_bytes("a", b"1")
        lock = other.read_json(layout.LOCK)
        other.write_json(layout.LOCK, {**lock, "token": lock["token"] + 1})
        later[clock] = s3_client.FRESH_SECONDS + 1
        store.write_bytes("b", b"1")
    assert not other.exists("b")


def test_a_check_of_the_lock_holds_for_several_changes(store: Store) -> None:
    with locked(store):
        began = time.monotonic()
        store.write_bytes("a", b"1")
        with RequestCounter().counting() as seen:
            for number in range(4):
                store.write_bytes(f"{number}", json.dumps(number).encode())
        read = [key for verb, key in seen if verb == "GET"]
        assert not read or time.monotonic() - began > s3_client.FRESH_SECONDS


def write_one(store: Store, name: str, *, after: tuple[str, ...] = ()) -> Task:
    def work(writer: ArtifactWriter) -> dict[str, Any]:
        writer.write_json(f"{name}/file.json", name)
        return {}

    return Task(name, store, work, after=after, outputs=[f"{name}/"])


def hold_uploads(store: Store, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    opened = threading.Event()

    def hold(request: Any, **given: Any) -> None:
        if request.method == "PUT":
            opened.wait(120)

    store._client.meta.events.register("before-send.s3", hold)  # type: ignore[attr-defined]
    return opened


def test_the_next_task_does_not_wait_for_uploads(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = hold_uploads(store, monkeypatch)
    with store.snapshot():
        for name, after in (("a", ()), ("b", ("a",))):
            assert not write_one(store, name, after=after).run().skipped
            assert read_record(store, name)["task"] == name and store.read_json(f"{name}/file.json") == name
            assert store.local_copy(f"{name}/file.json").read_bytes() == store.read_bytes(f"{name}/file.json")
            assert not store.is_written(layout.record(name))
        assert not [*other.list()]
        opened.set()
        assert store.is_written(layout.record("b"), wait=True)
        assert [entry.key for entry in other.list("records/")] == ["records/a.json", "records/b.json"]
        assert write_one(store, "b", after=("a",)).run().skipped
    tags = {entry.key: entry.tag for entry in other.list()}
    assert tags == {entry.key: entry.tag for entry in store.list()}


@pytest.mark.parametrize("refused", ["a/file", "records/a"])
def test_after_a_failed_upload_no_record_is_written(store: Store, other: Store, refused: str) -> None:
    def spoil(request: Any, **given: Any) -> None:
        if request.method == "PUT" and refused in request.url:
            request.headers["Authorization"] = request.headers["Authorization"][:-4] + b"0000"

    store._client.meta.events.register("before-send.s3", spoil)  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match="does not accept the credentials"), store.snapshot():
        for name in ("a", "b", "c"):  # they do not follow each other
            write_one(store, name).run()
            store.is_written(layout.record(name), wait=True)
    assert not other.exists(layout.record("a")) and not other.exists(layout.record("c"))
    with store.snapshot():
        assert not store.exists(layout.record("a"))


def test_the_manifest_waits_for_records(store: Store, other: Store) -> None:
    with store.snapshot():
        write_one(store, "a").run()
        store.write_first(layout.MANIFEST, b"{}")
        assert other.exists(layout.record("a")) and other.exists("a/file.json")


def test_objects_are_fetched_ahead(store: Store) -> None:
    for number in range(4):
        store.write_bytes(f"{number}", bytes([number]))
    with RequestCounter().counting() as seen:
        store.fetch_ahead(["0", "missing", "1", "2", "3"])
        end = time.monotonic() + 60
        while sum(verb == "GET" for verb, _ in seen) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        copies = [store.local_copy(f"{number}").read_bytes() for number in range(4)]
    assert copies == [bytes([number]) for number in range(4)]
    assert sum(count for (verb, _), count in seen.items() if verb == "GET") == 4
    store.close()
