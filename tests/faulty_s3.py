"""A proxy in front of an S3 server that answers some requests with faults, by a seed."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from partition_ops.storage import StorageSettings

ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>a fault</Message></Error>"
FAULTS = ("500", "503", "cut", "reset", "late")


@dataclass
class Faults:
    """What the proxy does wrong.

    Attributes:
        seed: Seed of the choice of requests.
        share: Share of the requests that end with one of ``kinds``.
        kinds: Faults to choose from, with equal probability.
        flipped: Share of the reads in which one bit is flipped.
        flipped_uploads: Share of the uploads in which one bit is flipped.
        late: Delay of a late answer in seconds.
        seen: Number of requests by fault, ``flipped`` and ``requests``.
    """

    seed: int
    share: float = 0.1
    kinds: tuple[str, ...] = FAULTS
    flipped: float = 0.0
    flipped_uploads: float = 0.0
    late: float = 20.0
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def choose(self, method: str) -> tuple[str | None, bool, float]:
        """Return the fault of a request, whether to flip a bit, and a random number."""
        with self._lock:
            fault = self._random.choice(self.kinds) if self._random.random() < self.share else None
            flips = {"GET": self.flipped, "PUT": self.flipped_uploads}.get(method, 0.0)
            flip = fault in (None, "late") and self._random.random() < flips
            self.seen["requests"] += 1
            self.seen[fault or "none"] += 1
            self.seen["flipped"] += flip
            return fault, flip, self._random.random()


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on to the server, with the faults that the `Server` has chosen."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault, flip, number = self.server.faults.choose(self.command)
        if fault == "late":
            time.sleep(self.server.faults.late)
        lost = fault if fault in ("500", "503", "reset") else None
        if lost and number < 0.5:  # the server does not see the request
            return self.spoil(lost)
        if flip and self.command == "PUT":
            body = flip_bit(body, number)
        answer, data = self.ask(body)
        if lost:  # the answer is lost
            return self.spoil(lost)
        if flip and self.command == "GET" and answer.status < 300:
            data = flip_bit(data, number)
        self.pass_on(answer, data, int(number * len(data)) if fault == "cut" else None)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_request

    def ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Return the answer of the server, and its body."""
        connection = http.client.HTTPConnection(self.server.upstream, timeout=300)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def pass_on(self, answer: http.client.HTTPResponse, data: bytes, cut: int | None) -> None:
        """Send an answer; with `cut`, hang up after that many bytes of its body."""
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data[:cut])
        if cut is not None:
            self.wfile.flush()
            self.hang_up()

    def spoil(self, fault: str) -> None:
        if fault == "reset":
            return self.hang_up(reset=True)
        body = ERROR.format({"500": "InternalError", "503": "SlowDown"}[fault]).encode()
        self.send_response_only(int(fault), "a fault")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self, *, reset: bool = False) -> None:
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        with suppress(OSError):
            if not reset:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.connection.close()

    def log_message(self, *words: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: str, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), Proxy)
        self.upstream = upstream
        self.faults = faults

    def handle_error(self, request: object, address: object) -> None:
        pass  # clients hang up too


@contextmanager
def faulty(settings: StorageSettings, faults: Faults) -> Iterator[StorageSettings]:
    """Yield the settings of a proxy in front of the server of other settings."""
    with Server(urlsplit(settings.endpoint_url or "").netloc, faults) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield replace(settings, endpoint_url=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def flip_bit(data: bytes, number: float) -> bytes:
    """Return other bytes: one bit is flipped, by a random number from 0 to 1."""
    changed, at = bytearray(data), int(number * len(data) * 8)
    if data:
        changed[at // 8] ^= 1 << at % 8
    return bytes(changed)
