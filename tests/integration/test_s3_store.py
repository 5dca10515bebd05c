"""Errors that only a server has: credentials, missing buckets, timeouts, changes during a download."""

from __future__ import annotations

import gc
import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_stack.processes import free_port
from partition_ops.errors import StorageError, TransientStorageError, UsageError
from partition_ops.storage import StorageSettings, s3_integrity, s3_transfers
from partition_ops.storage.s3_client import make_client
from partition_ops.storage.s3_errors import public_address, translate_error
from partition_ops.storage.s3_store import S3Store
from partition_ops.system.progress import NoProgress

USES: dict[str, Callable[[S3Store], object]] = {
    "list": lambda store: list(store.list()),
    "stat": lambda store: store.stat("a"),
    "read_bytes": lambda store: store.read_bytes("a"),
    "local_copy": lambda store: store.local_copy("a"),
    "write": lambda store: store.write_bytes("a", b"1"),
    "delete": lambda store: store.delete(["a"]),
}


@pytest.fixture
def store(s3_settings: StorageSettings, s3_root: str) -> S3Store:
    return opened(s3_root, s3_settings)


def opened(root: str, settings: StorageSettings, **options: Any) -> S3Store:
    bucket, prefix = root.removeprefix("s3://").split("/")
    return S3Store(bucket, prefix, settings=settings, **options)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("wrong", ["access_key", "secret_key"])
def test_wrong_credentials_are_refused_without_being_shown(
    s3_settings: StorageSettings, s3_root: str, use: str, wrong: str
) -> None:
    store = opened(s3_root, replace(s3_settings, **{wrong: "very-wrong-value"}))
    with pytest.raises(StorageError, match="AWS_ACCESS_KEY_ID") as caught:
        USES[use](store)
    assert not caught.value.transient
    for secret in ("very-wrong-value", s3_settings.access_key, s3_settings.secret_key):
        assert str(secret) not in str(caught.value)


def reads_right(store: S3Store, contents: dict[str, bytes], number: int, together: Barrier) -> None:
    """End with exit code 0 if every object is read right at the first request."""
    s3_integrity.time = SimpleNamespace(sleep=lambda seconds: os._exit(2))  # type: ignore[attr-defined]
    together.wait()
    keys = [*contents][number::2] * 20
    os._exit(0 if all(store.read_bytes(key) == contents[key] for key in keys) else 1)


@pytest.mark.parametrize("given", [False, True], ids=["own client", "given client"])
def test_forked_processes_do_not_share_connections(
    s3_settings: StorageSettings, s3_root: str, *, given: bool
) -> None:
    """Two workers of a data loader would take each other's answers."""
    settings = replace(s3_settings, max_attempts=1)
    with opened(s3_root, settings, client=make_client(settings) if given else None) as store:
        contents = {f"object{number}": bytes([number]) * 100_000 for number in range(8)}
        for key, content in contents.items():
            store.write_bytes(key, content)
        fork = multiprocessing.get_context("fork")
        together = fork.Barrier(2)
        arguments = [(store, contents, number, together) for number in range(2)]
        workers = [fork.Process(target=reads_right, args=one) for one in arguments]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
            worker.kill()  # if it still waits for an answer
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert store.read_bytes("object3") == contents["object3"]


@pytest.mark.parametrize("use", USES)
def test_a_missing_bucket_is_named(s3_settings: StorageSettings, use: str) -> None:
    with pytest.raises(StorageError, match="There is no bucket 'no-such-bucket'") as caught:
        USES[use](S3Store("no-such-bucket", "x", settings=s3_settings))
    assert not caught.value.transient


@pytest.mark.parametrize("use", USES)
def test_an_unreachable_server_is_a_transient_error(s3_settings: StorageSettings, use: str) -> None:
    settings = replace(s3_settings, endpoint_url=f"http://127.0.0.1:{free_port()}", max_attempts=1)
    with pytest.raises(TransientStorageError, match="AWS_ENDPOINT_URL"):
        USES[use](S3Store("bucket", "x", settings=settings))


def test_a_silent_server_times_out(s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr("partition_ops.storage.s3_integrity.FIRST_WAIT", 0.01)
    monkeypatch.setattr("partition_ops.storage.s3_errors.HANDSHAKE_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = replace(s3_settings, endpoint_url=address, max_attempts=1, read_timeout=0.5)
        with pytest.raises(TransientStorageError, match="ReadTimeoutError"):
            S3Store("bucket", "x", settings=settings).read_bytes("a")


def test_no_credentials_at_all(s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = replace(s3_settings, access_key=None, secret_key=None)
    with pytest.raises(StorageError, match="no credentials") as caught:
        S3Store("bucket", settings=settings).read_bytes("a")
    assert not caught.value.transient


def test_credentials_may_come_from_the_environment(
    s3_settings: StorageSettings, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(s3_settings.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(s3_settings.secret_key))
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(s3_settings.endpoint_url))
    store = opened(s3_root, StorageSettings())
    assert store.write_bytes("a", b"1").size == 1


def test_a_profile_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(StorageError, match="no-such-profile"):
        S3Store("bucket")


@pytest.mark.parametrize(
    "settings", [StorageSettings(endpoint_url="nonsense"), StorageSettings(addressing_style="diagonal")]
)
def test_wrong_settings_are_wrong_use(settings: StorageSettings) -> None:
    with pytest.raises(UsageError):
        S3Store("bucket", settings=settings)


def test_a_bucket_that_cannot_be_is_wrong_use(s3_settings: StorageSettings) -> None:
    with pytest.raises(UsageError):
        S3Store("not a bucket!", settings=s3_settings).read_bytes("a")


@pytest.mark.parametrize(
    ("code", "status", "transient"),
    [
        ("SlowDown", 503, True),
        ("InternalError", 500, True),
        ("502", 502, True),
        ("429", 429, True),
        ("AccessDenied", 403, False),
        ("ExpiredToken", 400, False),
        ("EntityTooLarge", 400, False),
    ],
)
def test_only_temporary_errors_are_transient(code: str, status: int, transient: bool) -> None:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = translate_error(ClientError(answer, "GetObject"), "s3://b/k", "http://host")
    assert isinstance(error, StorageError)
    assert error.transient is transient


def test_an_address_is_shown_without_its_password() -> None:
    assert public_address("http://user:password@host:9000/x") == "http://host:9000"
    assert "password" not in repr(StorageSettings(endpoint_url="http://user:password@host"))


def test_no_repr_has_a_secret(s3_settings: StorageSettings, store: S3Store) -> None:
    text = repr(s3_settings) + repr(store) + str(vars(store))
    assert str(s3_settings.secret_key) not in text
    assert str(s3_settings.access_key) not in text


def test_threads_fetch_an_object_once(store: S3Store) -> None:
    store.write_bytes("a", b"x" * 1000)
    calls = requests(store, "GET", delay=0.05)  # enough time for the other threads to ask too
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: store.local_copy("a"), range(16)))
    assert len(paths) == 1 and paths.pop().read_bytes() == b"x" * 1000
    assert store.child("b").uri.endswith("/b") and len(calls) == 1


def requests(store: S3Store, method: str, *, delay: float = 0.0) -> list[str]:
    """Return a list to which each request of a method adds its URL, before a delay in seconds."""
    found: list[str] = []

    def note(request: Any, **given: Any) -> None:
        if request.method == method:
            found.append(request.url)
            time.sleep(delay)

    store._client.meta.events.register("before-send.s3", note)
    return found


def test_children_share_the_copies(store: S3Store) -> None:
    store.write_bytes("a/b", b"1")
    assert store.local_copy("a/b") == store.child("a").local_copy("b")


def test_copies_are_private_and_removed_with_the_store(store: S3Store) -> None:
    store.write_bytes("a.json", b"1")
    child = store.child("x")
    path = store.local_copy("a.json")
    assert path.suffix == ".json"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    child.close()
    assert path.exists()
    store.close()
    assert not path.parent.exists()
    assert store.local_copy("a.json").read_bytes() == b"1"  # a closed store may be used again
    store.close()


def test_copies_are_removed_when_the_store_is_garbage_collected(
    s3_settings: StorageSettings, s3_root: str
) -> None:
    store = opened(s3_root, s3_settings)
    store.write_bytes("a", b"1")
    folder = store.local_copy("a").parent
    del store
    gc.collect()
    assert not folder.exists()


def test_a_rewritten_object_is_fetched_again(store: S3Store) -> None:
    store.write_bytes("a", b"old")
    assert store.local_copy("a").read_bytes() == b"old"
    store.write_bytes("a", b"new")
    assert store.local_copy("a").read_bytes() == b"new"


def test_a_change_during_a_download_is_noticed(
    store: S3Store, s3_settings: StorageSettings, s3_root: str
) -> None:
    """It changes between two requests: for its size, and for its content."""
    store.write_bytes("a", b"old content")
    other = opened(s3_root, s3_settings)

    def change(request: Any, **given: Any) -> None:
        if request.method == "GET":
            other.write_bytes("a", b"new content")

    store._client.meta.events.register("before-send.s3", change)
    with pytest.raises(TransientStorageError, match="changed while it was downloaded"):
        store.local_copy("a")
    store._client.meta.events.unregister("before-send.s3", change)
    assert store.local_copy("a").read_bytes() == b"new content"


def test_an_upload_that_breaks_off_leaves_nothing(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_transfers, "UPLOAD_BYTES", 5 << 20)
    upload_part = store._client.upload_part
    calls: list[int] = []

    def breaking(**kwargs: Any) -> Any:
        calls.append(kwargs["PartNumber"])
        if kwargs["PartNumber"] == 2:
            answer: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(answer, "UploadPart")
        return upload_part(**kwargs)

    store._client.upload_part = breaking  # type: ignore[method-assign]
    with pytest.raises(TransientStorageError, match="SlowDown"):
        store.write_bytes("a", bytes((5 << 20) + 1))
    assert 2 in calls
    assert not store.exists("a")
    uploads = store._client.list_multipart_uploads(Bucket=store._bucket)
    assert not uploads.get("Uploads")


def test_an_object_uploaded_in_parts_is_read_back_while_nobody_else_writes(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers give an object another ETag than the upload in parts, of which a snapshot would know."""
    monkeypatch.setattr(s3_transfers, "UPLOAD_BYTES", 5 << 20)
    data = os.urandom(11 << 20)
    with store.snapshot():
        store.write_bytes("a", data)
        found, served = store.stat("a"), opened(store.uri, store.settings).stat("a")
        assert found and served and found.tag == served.tag
        assert store.local_copy("a").read_bytes() == data


def test_a_full_disk_is_a_storage_error(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_bytes("a", b"1")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(s3_transfers.os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left"):
        store.local_copy("a")


def test_an_existing_client_is_used(store: S3Store, s3_root: str) -> None:
    store.write_bytes("a", b"1")
    bucket, prefix = s3_root.removeprefix("s3://").split("/")
    assert S3Store(bucket, prefix, client=store._client).read_bytes("a") == b"1"


def test_only_large_transfers_show_progress(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.storage.s3_reader.BIG_BYTES", 100)
    shown_steps: list[tuple[str, int, list[int]]] = []
    lock = threading.Lock()

    class Noting(NoProgress):
        def step(self, title: str, total: int, unit: str):  # type: ignore[no-untyped-def]
            from contextlib import nullcontext

            done: list[int] = []
            with lock:
                shown_steps.append((title, total, done))
            return nullcontext(done.append)

    store.progress = Noting()
    store.write_bytes("small", bytes(99))
    store.write_bytes("big", bytes(100))
    store.child("x").progress.step("y", 1, "z")
    store.local_copy("big")
    titles = [(title.split()[0], total, sum(done)) for title, total, done in shown_steps]
    assert titles == [("Uploading", 100, 100), ("y", 1, 0), ("Downloading", 100, 100)]


def test_the_temporary_file_of_a_write_is_gone(store: S3Store) -> None:
    with store.create("a") as new:
        new.path.write_bytes(b"1")
        folder: Path = new.path.parent
    assert list(folder.iterdir()) == []
