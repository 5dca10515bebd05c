"""Conditional writes and removals on servers that honour them; rclone's, in other tests, does not."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from partition_ops.artifacts.lock import holds_lock, locked, release_lock, take_lock
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.errors import ConflictError
from partition_ops.storage import StorageSettings, Store, open_store, s3_conditions
from partition_ops.storage.store import json_bytes

ERROR = "<?xml version='1.0'?><Error><Code>{}</Code></Error>"
LISTED = (
    "<Contents><Key>{}</Key><ETag>x</ETag><Size>1</Size>"
    "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
)
DELETED = "<?xml version='1.0'?><DeleteResult/>"


class Server(BaseHTTPRequestHandler):
    """A server with one bucket and conditional writes.

    Attributes:
        contents: Objects by path.
        deletes: What it does with conditional removals: it honours them as AWS, ignores them as MinIO, or
            rejects them; ``always 404`` ignores them and rejects every removal of what does not exist.
    """

    protocol_version = "HTTP/1.1"  # HTTP/1.0 has no "100 Continue", for which boto3 waits
    contents: ClassVar[dict[str, bytes]] = {}
    deletes: ClassVar[str] = "honours"
    atomic: ClassVar[threading.Lock] = threading.Lock()

    def do_GET(self) -> None:
        if self.path.startswith("/graphs?"):
            keys = (key.removeprefix("/graphs/") for key in self.contents)
            listed = "".join(LISTED.format(key) for key in keys)
            return self.answer(200, body=f"<ListBucketResult>{listed}</ListBucketResult>".encode())
        if self.path not in self.contents and self.path.strip("/") != "graphs":  # the bucket exists
            return self.answer(404, "NoSuchKey")
        self.answer(200, body=self.contents.get(self.path, b""))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.atomic:
            self.put(data, self.headers.get("If-Match"))

    def put(self, data: bytes, wanted: str | None) -> None:
        if (self.headers.get("If-None-Match") == "*" and self.path in self.contents) or (
            wanted is not None and wanted != self.tag()
        ):
            return self.answer(412, "PreconditionFailed")
        self.contents[self.path] = data
        self.answer(200)

    def do_DELETE(self) -> None:
        with self.atomic:
            self.remove(self.headers.get("If-Match"))

    def remove(self, wanted: str | None) -> None:
        if wanted is not None and self.deletes == "rejects":
            return self.answer(501, "NotImplemented")
        if self.path not in self.contents:
            rejected = wanted is not None and self.deletes == "honours"
            return (
                self.answer(404, "NoSuchKey")
                if rejected or self.deletes == "always 404"
                else self.answer(204)
            )
        if wanted not in (None, self.tag()) and self.deletes == "honours":
            return self.answer(412, "PreconditionFailed")
        del self.contents[self.path]
        self.answer(204)

    def do_POST(self) -> None:  # the request to delete several objects
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        for key in re.findall("<Key>(.*?)</Key>", body):
            self.contents.pop(f"/graphs/{key}", None)
        self.answer(200, body=DELETED.encode())

    def tag(self) -> str:
        return f'"{hashlib.md5(self.contents.get(self.path, b"")).hexdigest()}"'

    def answer(self, status: int, code: str = "", *, body: bytes = b"") -> None:
        body = ERROR.format(code).encode() if code else body
        self.send_response(status)
        self.send_header("ETag", self.tag())
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(s3_conditions, "SETTLE_SECONDS", -1)  # time.sleep raises an error for a negative time
    monkeypatch.setattr(Server, "contents", {})
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = StorageSettings(
            endpoint_url=f"http://127.0.0.1:{server.server_port}",
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            addressing_style="path",
        )
        with open_store("s3://graphs/out", settings) as store:
            yield store
        server.shutdown()


def test_a_lock_is_taken_without_waiting(root: Store) -> None:
    with locked(root):
        with pytest.raises(ConflictError, match="is in use"), locked(root):
            pass
        assert read_lock(root) is not None
    assert read_lock(root) is None


def test_unexpected_content_is_not_overwritten(root: Store) -> None:
    assert root.compare_and_set("lock.json", b"a", expected=None)
    assert not root.compare_and_set("lock.json", b"b", expected=None)
    assert not root.compare_and_set("lock.json", b"b", expected=b"x")
    assert root.compare_and_set("lock.json", b"b", expected=b"a")
    assert root.read_bytes("lock.json") == b"b"


@pytest.mark.parametrize("deletes", ["honours", "ignores", "rejects", "always 404"])
def test_a_released_lock_can_be_taken(root: Store, deletes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server cannot remove on a condition, a released lock stays, and nobody holds it."""
    monkeypatch.setattr(Server, "deletes", deletes)
    tokens = []
    for _ in range(2):
        with locked(root):
            tokens.append(root.read_json("lock.json")["token"])
            root.write_bytes("a", b"1")
        assert read_lock(root) is None
        assert root.exists("lock.json") == (deletes != "honours")
    assert tokens == sorted({*tokens})


@pytest.mark.parametrize("deletes", ["honours", "ignores"])
def test_a_late_release_keeps_the_lock_of_another_holder(
    root: Store, deletes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one takes the lock after the first has read it, just before its request arrives."""
    monkeypatch.setattr(Server, "deletes", deletes)
    first, second = {"dag_id": "d", "run_id": "one"}, {"dag_id": "d", "run_id": "two"}
    assert take_lock(root, first) is None
    taken: list[object] = []

    def take_over(**options: object) -> None:
        if not taken and options["Key"] == "out/lock.json":
            taken.append(Server.contents["/graphs/out/lock.json"])
            lock = json.loads(Server.contents["/graphs/out/lock.json"])
            other = {**lock, "holder": second, "token": lock["token"] + 1}
            Server.contents["/graphs/out/lock.json"] = json_bytes(other)

    client = root._client  # type: ignore[attr-defined]
    for operation in ("DeleteObject", "PutObject"):
        client.meta.events.register(
            f"provide-client-params.s3.{operation}", lambda params, **more: take_over(**params)
        )
    assert not release_lock(root, first)
    assert taken and holds_lock(root, second)
    assert release_lock(root, second)
    assert read_lock(root) is None


def test_holders_that_release_and_take_over_at_once_do_not_call_the_lock_broken(root: Store) -> None:
    """One removes the lock while the other one reads it, and takes it again."""

    def work(number: int) -> int:
        holder = {"dag_id": "d", "run_id": str(number)}
        held = 0
        for _ in range(15):
            if take_lock(root, holder, abandoned=lambda lock: "a test") is None:
                held += 1
                release_lock(root, holder)
        return held

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(work, range(2))) > 0
    assert read_lock(root) is None
