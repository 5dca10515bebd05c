"""Conditional writes on a server that supports conditions; rclone's, in other tests, does not."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from partition_ops.artifacts.lock import locked, read_lock
from partition_ops.errors import ConflictError
from partition_ops.storage import StorageSettings, Store, open_store, s3_client

ERROR = "<?xml version='1.0'?><Error><Code>{}</Code></Error>"
DELETED = "<?xml version='1.0'?><DeleteResult/>"


class Server(BaseHTTPRequestHandler):
    """A server with one bucket and conditional writes."""

    protocol_version = "HTTP/1.1"  # HTTP/1.0 has no "100 Continue", for which boto3 waits
    contents: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        if self.path.startswith("/graphs?"):
            keys = (key.removeprefix("/graphs/") for key in self.contents)
            listed = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
            return self.answer(200, body=f"<ListBucketResult>{listed}</ListBucketResult>".encode())
        if self.path not in self.contents and self.path.strip("/") != "graphs":  # the bucket exists
            return self.answer(404, "NoSuchKey")
        self.answer(200, body=self.contents.get(self.path, b""))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        wanted = self.headers.get("If-Match")
        if (self.headers.get("If-None-Match") == "*" and self.path in self.contents) or (
            wanted is not None and wanted != self.tag()
        ):
            return self.answer(412, "PreconditionFailed")
        self.contents[self.path] = data
        self.answer(200)

    def do_POST(self) -> None:  # the request to delete several objects
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        for key in re.findall("<Key>(.*?)</Key>", body):
            self.contents.pop(f"/graphs/{key}", None)
        self.answer(200, body=DELETED.encode())

    def tag(self) -> str:
        return f'"{hash(self.contents.get(self.path))}"'

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
    monkeypatch.setattr(s3_client, "SETTLE_SECONDS", -1)  # time.sleep raises an error for a negative time
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
