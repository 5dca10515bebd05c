"""Files and folders that outlive a power failure: syncing, durable copies, and new folders."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from partition_ops.errors import StorageError
from partition_ops.storage.local_errors import explain_os_errors, nearest_existing, not_a_folder

SYNC_FILE_RANGE_WRITE = 2  # <linux/fs.h>: start to write dirty pages, without waiting
TO_THE_END = 0


class UnsyncedFolders:
    """Folders with new or removed entries that may not be on the disk yet. Several threads can use it.

    Attributes:
        made: Folders that the store has made.
        making: Held while a folder is made.
    """

    def __init__(self) -> None:
        self.made: list[Path] = []
        self.making = threading.Lock()
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._deferred = 0
        self._folders: set[Path] = set()

    def add(self, folder: Path) -> None:
        """Write the entries of a folder to the disk, now or at the end of `deferred`."""
        with self._lock:
            if self._deferred:
                self._folders.add(folder)
                return
        sync_folder(folder)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Write each folder once, at the end of the block.

        Blocks of several threads overlap. What one has changed may be written at the end of the block of
        another one, which the first then waits for.
        """
        with self._lock:
            self._deferred += 1
        try:
            yield
        finally:
            with self._syncing:
                with self._lock:
                    self._deferred -= 1
                while (folder := self._next()) is not None:
                    try:
                        sync_folder(folder)
                    except StorageError:
                        with self._lock:
                            self._folders.add(folder)
                        raise

    def _next(self) -> Path | None:
        """Remove and return a folder; its later changes add it again."""
        with self._lock:
            return self._folders.pop() if self._folders else None


def make_folder(path: Path, changed: Callable[[Path], None] | None = None) -> list[Path]:
    """Make a folder and its parents, and return those that did not exist.

    Args:
        path: The folder.
        changed: Called with each folder that has a new entry. Default: `sync_folder`.

    Raises:
        StorageError: It cannot be made.
        UsageError: A file has its name, or that of a parent.
    """
    if path.is_dir():
        return []
    existing = nearest_existing(path)
    try:
        with explain_os_errors(path, "made"):
            path.mkdir(parents=True, exist_ok=True)
    except StorageError:
        existing = nearest_existing(path)
        if existing.is_dir():
            raise
        raise not_a_folder(path, existing) from None
    made = []
    while path != existing and path.parent != path:
        made.append(path)
        path = path.parent
        (changed or sync_folder)(path)
    return made


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on the disk; a folder that has been removed is ignored."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without it
            raise StorageError(f"{folder} cannot be written to the disk: {error.strerror}") from error
    finally:
        os.close(handle)


def copy_durably(source: Path, target: Path) -> None:
    """Copy the content of a file, and wait until it is on the disk; `sync_folder` does so for its name."""
    shutil.copyfile(source, target)
    with target.open("rb") as stream:
        os.fsync(stream.fileno())


def start_flushing(file: int) -> None:
    """Ask the kernel to start writing a file to the disk, which shortens a later ``fsync``.

    This does nothing on systems other than Linux, or if the kernel refuses.

    Args:
        file: Descriptor of the file.
    """
    sync_file_range = _sync_file_range()
    if sync_file_range is not None:
        sync_file_range(file, 0, TO_THE_END, SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Any:
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function
