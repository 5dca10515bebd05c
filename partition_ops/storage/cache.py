"""Copies of remote objects on the local disk."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from partition_ops.system.temporary_folders import new_folder


class FetchCache:
    """A private temporary folder with one file for each object that was fetched.

    The folder is made when it is first needed, with mode 0700, below the usual place for temporary
    files (``TMPDIR``). It goes when the cache is closed, and at the latest when the interpreter exits;
    what a process that is killed leaves behind, a later command removes. Usable from several threads.
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
        """A path for a file that nobody else uses."""
        return self.folder() / f"new-{secrets.token_hex(8)}"

    def fetch(self, key: str, fetch: Callable[[Path], None]) -> Path:
        """The copy of an object; two threads that ask for the same one fetch it once.

        Args:
            key: Name of the object, unique in this cache.
            fetch: Writes the object into the file it is given; nothing is kept when it raises.
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
        """Take a file that has become an object as the copy of it."""
        written.replace(self._path(key))

    def kept(self, key: str) -> Path | None:
        """The copy of an object, if there is one already."""
        path = self._path(key) if self._folder is not None else None
        return path if path is not None and path.exists() else None

    def forget(self, key: str) -> None:
        """Drop the copy of an object that has been replaced; those who have it open keep it."""
        if self._folder is not None:
            self._path(key).unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            remove, self._remove, self._folder = self._remove, None, None
        if remove is not None:
            remove()

    def _path(self, key: str) -> Path:
        # a digest, because a key may be longer than the name of a file can be
        suffix = PurePosixPath(key).suffix[:16]
        return self.folder() / (hashlib.sha256(key.encode()).hexdigest() + suffix)


def _remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not take the folder away from its parent
        shutil.rmtree(folder, ignore_errors=True)
