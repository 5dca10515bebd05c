"""A folder of things made from artifacts: each whole or not there, all together below a limit."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from partition_ops.errors import StorageError, UsageError
from partition_ops.storage.store import explain_full_disk

PARTIAL = ".partial-"
LOCK = ".lock"
CACHE_BYTES = 64 << 30
WAIT = 0.02  # seconds until the next look at a lock


def default_cache_folder() -> Path:
    """``$XDG_CACHE_HOME/partition-ops/train``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "partition-ops" / "train"


@dataclass
class CacheEntry:
    """A folder of the cache that is not removed as long as this is there.

    Attributes:
        folder: The folder; never write to it.
    """

    folder: Path
    _lock: IO[str]

    def close(self) -> None:
        """Let the cache remove the folder when it needs the room."""
        self._lock.close()


class Cache:
    """A bounded local cache that several processes may share.

    An entry is made in a folder of another name and renamed when it is whole; who finds one being made waits
    for it. What was used least recently goes first when room is needed, but nothing that is in use.

    Args:
        folder: Where; made when needed.
        limit: Bytes of all entries together, those that are being made included.
    """

    def __init__(self, folder: Path, limit: int = CACHE_BYTES) -> None:
        self.folder = folder
        self.limit = limit

    def get(self, name: str, num_bytes: int, make: Callable[[Path], None]) -> CacheEntry:
        """An entry, made if it is not there.

        Args:
            name: Says what it was made from: the same name means the same content.
            num_bytes: What making it takes on disk, at most.
            make: Writes its files into the folder that it is given.

        Raises:
            UsageError: There is no room for it.
            StorageError: The folder cannot be written, or its disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / f"{name}{LOCK}").open("a")
        except OSError as error:
            raise StorageError(
                f"The cache {self.folder} cannot be written: {error.strerror}",
                expected="a folder, or a path where one can be made",
                remedy="Name another folder.",
            ) from error
        target = self.folder / name
        try:
            while True:
                fcntl.flock(lock, fcntl.LOCK_SH)
                if target.is_dir():
                    os.utime(lock.name)
                    return CacheEntry(target, lock)
                # never wait for the exclusive lock: who is quicker keeps the shared one as long as it runs
                if _lock_alone(lock):
                    if not target.is_dir():
                        self._make(target, num_bytes, make)
                else:
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    time.sleep(WAIT)
        except BaseException:
            lock.close()
            raise

    def _make(self, target: Path, num_bytes: int, make: Callable[[Path], None]) -> None:
        partial = self.folder / f"{target.name}{PARTIAL}{num_bytes}"
        with self._alone():
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed: we hold its lock
            self._make_room(num_bytes)
            partial.mkdir()
        try:
            with explain_full_disk(self.folder):
                make(partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / f"room{LOCK}").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_room(self, wanted: int) -> None:
        folders = sorted((p for p in self.folder.iterdir() if p.is_dir()), key=self._last_use)
        sizes = {path: _size(path) for path in folders}
        for path in folders:
            if sum(sizes.values()) + wanted <= self.limit:
                return
            if self._remove(path):
                del sizes[path]
        used = sum(sizes.values())
        if used + wanted > self.limit:
            raise UsageError(
                f"The cache {self.folder} is too small",
                found=f"a limit of {self.limit:,} bytes, {used:,} of them in use",
                expected=f"{wanted:,} bytes more",
                remedy="Give it a higher limit, open fewer partitions, or close what is not used any more.",
            )

    def _last_use(self, path: Path) -> float:
        lock = self._lock_of(path)
        return lock.stat().st_mtime if lock.exists() else 0.0

    def _lock_of(self, path: Path) -> Path:
        return self.folder / f"{path.name.partition(PARTIAL)[0]}{LOCK}"

    def _remove(self, path: Path) -> bool:
        """Remove an entry, or what a killed process left of one, unless it is in use."""
        with self._lock_of(path).open("a") as lock:
            if not _lock_alone(lock):
                return False
            gone = path.with_name(f"{path.name.partition(PARTIAL)[0]}{PARTIAL}0")
            if gone != path:
                shutil.rmtree(gone, ignore_errors=True)
                path.rename(gone)  # so that it is never there in part
            shutil.rmtree(gone, ignore_errors=True)
            return True


def _lock_alone(lock: IO[str]) -> bool:
    """Take the exclusive lock of an entry, if nobody else has one."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size(path: Path) -> int:
    """Bytes of an entry, or those that are set aside for one that is being made."""
    _, found, reserved = path.name.partition(PARTIAL)
    return int(reserved) if found else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
