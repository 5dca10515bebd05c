"""Downloaded copies of objects on the local disk, and uploads in the background."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from partition_ops.system.temporary_folders import new_folder

AT_A_TIME = 4  # uploads; as many files wait on the local disk at most


class FetchCache:
    """A private temporary folder with one file for each downloaded object.

    The first use makes the folder, with mode 0700, below ``TMPDIR``. `close` removes it, or else the exit of
    the interpreter; later commands remove the folders of killed processes. Several threads can use a cache.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key_locks: dict[str, threading.Lock] = {}
        self._folder: Path | None = None
        self._remove: Callable[[], object] | None = None

    def folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = new_folder()
                self._remove = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
            return self._folder

    def new_file(self) -> Path:
        """Return an unused path for a new file."""
        return self.folder() / f"new-{secrets.token_hex(8)}"

    def fetch(self, key: str, fetch: Callable[[Path], None]) -> Path:
        """Return the copy of an object; concurrent calls for the same object download it once.

        Args:
            key: Key of the object in the bucket.
            fetch: Downloads the object into a file. If it raises, nothing is kept.
        """
        path = self._path(key)
        with self._lock:
            lock = self._key_locks.setdefault(key, threading.Lock())
        with lock:
            if not path.exists():
                partial = self.new_file()
                try:
                    fetch(partial)
                    partial.replace(path)
                finally:
                    partial.unlink(missing_ok=True)
        return path

    def keep(self, key: str, written: Path) -> None:
        """Keep a file that has been uploaded as the copy of its object."""
        written.replace(self._path(key))

    def kept(self, key: str) -> Path | None:
        """Return the copy of an object, or None if there is no copy."""
        path = self._path(key) if self._folder is not None else None
        return path if path is not None and path.exists() else None

    def forget(self, key: str) -> None:
        """Remove the copy of an object that has been replaced; open files remain readable."""
        if self._folder is not None:
            self._path(key).unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            remove, self._remove, self._folder = self._remove, None, None
        if remove is not None:
            remove()

    def _path(self, key: str) -> Path:
        # a digest, because a key may be longer than a file name can be
        suffix = PurePosixPath(key).suffix[:16]
        return self.folder() / (hashlib.sha256(key.encode()).hexdigest() + suffix)


def _remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not take the folder away from its parent
        shutil.rmtree(folder, ignore_errors=True)


class Uploads:
    """Uploads in the background, by the key of the object in the bucket. Several threads can use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_A_TIME)
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[str, Future[None]] = {}

    def start(self, key: str, upload: Callable[[], None]) -> Future[None]:
        """Start an upload, after an earlier one of the same object and when fewer than `AT_A_TIME` run."""
        self.settle(key)
        self._room.acquire()
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(AT_A_TIME, "upload")
            future = self._running[key] = self._pool.submit(upload)
        future.add_done_callback(lambda done: self._done(key))
        return future

    def settle(self, key: str) -> None:
        """Wait for the upload of an object, if there is one; its errors are raised where it was started."""
        with self._lock:
            future = self._running.get(key)
        if future is not None:
            future.exception()

    def settle_all(self, prefix: str) -> None:
        """Wait for the uploads of all objects whose keys begin with ``prefix``."""
        with self._lock:
            keys = [key for key in self._running if key.startswith(prefix)]
        for key in keys:
            self.settle(key)

    def close(self) -> None:
        """Wait for all uploads, and end the threads."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _done(self, key: str) -> None:
        with self._lock:
            self._running.pop(key, None)
        self._room.release()
