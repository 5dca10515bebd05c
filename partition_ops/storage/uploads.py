"""Uploads that go on while the next object is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

AT_A_TIME = 4  # so many files wait on the local disk at most


class Uploads:
    """What is on its way to a server, by the full key of the object. Usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_A_TIME)
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[str, Future[None]] = {}

    def start(self, key: str, upload: Callable[[], None]) -> Future[None]:
        """Begin an upload; waits while too many others are on their way, and for one of the same object."""
        self.settle(key)
        self._room.acquire()
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(AT_A_TIME, "upload")
            future = self._running[key] = self._pool.submit(upload)
        future.add_done_callback(lambda done: self._done(key))
        return future

    def settle(self, key: str) -> None:
        """Wait until an object is there, if it is on its way; whoever sent it is told of an error."""
        with self._lock:
            future = self._running.get(key)
        if future is not None:
            future.exception()

    def settle_all(self, prefix: str) -> None:
        """Wait for every object whose full key begins with ``prefix``."""
        with self._lock:
            keys = [key for key in self._running if key.startswith(prefix)]
        for key in keys:
            self.settle(key)

    def close(self) -> None:
        """Wait for all, and give the threads back."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _done(self, key: str) -> None:
        with self._lock:
            self._running.pop(key, None)
        self._room.release()
