"""Servers that keep what Airflow's notifiers send: a webhook, and a mail server."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Told = list[tuple[str, dict[str, Any]]]


@contextmanager
def webhook() -> Iterator[tuple[int, Told]]:
    """Serve on a free port; yield it, and the path and JSON of every request so far."""
    told: Told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], told
        server.shutdown()


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """Serve SMTP on a free port; yield it, and the text of every mail so far."""
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().decode().strip():
                if line.upper() == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                    mails.append("".join(lines))
                self.wfile.write(b"221 bye\r\n" if line.upper() == "QUIT" else b"250 fine\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], mails
        server.shutdown()
