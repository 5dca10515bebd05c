"""Bounded caches: folders on the local disk, shared by processes; and blocks of stored objects in memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO

from partition_ops.errors import StorageError, UsageError
from partition_ops.storage import Store
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.parallel import map_in_threads

PARTIAL = ".partial-"
LOCK = ".lock"
CACHE_BYTES = 64 << 30
WAIT = 0.02  # seconds between two attempts to take a lock

BLOCK_BYTES = 64 << 10
MOST_BLOCKS = 64  # of one request
REQUESTS = 16  # that run side by side
CACHED_BYTES = 256 << 20


def default_cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/partition-ops/train``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "partition-ops" / "train"


@dataclass
class CacheEntry:
    """A folder of the cache, which is not removed until `close` is called."""

    folder: Path  # the folder; never write to it
    _lock: IO[str]

    def close(self) -> None:
        """Let the cache remove the folder when it needs room."""
        self._lock.close()


class Cache:
    """A bounded local cache that several processes may share.

    An entry is made in a folder of another name, and renamed when it is complete; other processes that ask
    for it meanwhile wait. If room is needed, the entries that were used least recently are removed, except
    those in use.

    Args:
        folder: Folder of the cache; created when needed.
        limit: Limit in bytes for all entries together, including those that are being made.
    """

    def __init__(self, folder: Path, limit: int = CACHE_BYTES) -> None:
        self.folder = folder
        self.limit = limit

    def get(self, name: str, num_bytes: Callable[[], int], make: Callable[[Path], None]) -> CacheEntry:
        """Return an entry, made if it is not there.

        Args:
            name: Identifies the content: the same name means the same content.
            num_bytes: Returns the disk space that making the entry takes, at most; called if it is made.
            make: Writes the files of the entry into a folder.

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
                remedy="Choose another folder.",
            ) from error
        target = self.folder / name
        try:
            while True:
                fcntl.flock(lock, fcntl.LOCK_SH)
                if target.is_dir():
                    os.utime(lock.name)
                    return CacheEntry(target, lock)
                # do not wait for the exclusive lock: another process may hold the shared one until it ends
                if _lock_alone(lock):
                    if not target.is_dir():
                        self._make(target, num_bytes(), make)
                else:
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    time.sleep(WAIT)
        except BaseException:
            lock.close()
            raise

    def _make(self, target: Path, num_bytes: int, make: Callable[[Path], None]) -> None:
        partial = self.folder / f"{target.name}{PARTIAL}{num_bytes}"
        with (self.folder / f"room{LOCK}").open("a") as room:
            fcntl.flock(room, fcntl.LOCK_EX)
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed: we hold its lock
            self._make_room(num_bytes)
            partial.mkdir()
        try:
            with explain_full_disk(self.folder):
                make(partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _make_room(self, wanted: int) -> None:
        def last_use(path: Path) -> float:
            lock = self._lock_of(path)
            return lock.stat().st_mtime if lock.exists() else 0.0

        def size(path: Path) -> int:
            """Return the bytes of an entry, or those that are reserved for one that is being made."""
            _, found, reserved = path.name.partition(PARTIAL)
            return int(reserved) if found else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())

        folders = sorted((p for p in self.folder.iterdir() if p.is_dir()), key=last_use)
        sizes = {path: size(path) for path in folders}
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
                remedy="Raise the limit, open fewer partitions, or close graphs that are not used any more.",
            )

    def _lock_of(self, path: Path) -> Path:
        return self.folder / f"{path.name.partition(PARTIAL)[0]}{LOCK}"

    def _remove(self, path: Path) -> bool:
        """Remove an entry, complete or left by a killed process, unless it is in use."""
        with self._lock_of(path).open("a") as lock:
            if not _lock_alone(lock):
                return False
            gone = path.with_name(f"{path.name.partition(PARTIAL)[0]}{PARTIAL}0")
            if gone != path:
                shutil.rmtree(gone, ignore_errors=True)
                path.rename(gone)  # an incomplete entry never has the name of a complete one
            shutil.rmtree(gone, ignore_errors=True)
            return True


def _lock_alone(lock: IO[str]) -> bool:
    """Take the exclusive lock of an entry, if no other process holds a lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class BlockCache:
    """Blocks of stored objects, fetched by range requests; the least recently used ones are dropped.

    One request fetches neighbouring blocks that are missing, and requests run side by side. Usable from
    several threads, and after a fork: from then on every process has its own blocks.

    Args:
        store: Holds the objects.
        limit: Bytes of blocks in memory.
        block_bytes: Size of a block: small blocks fetch fewer unneeded bytes, big ones need fewer requests.

    Attributes:
        requests: Number of range requests so far.
        fetched_bytes: Bytes that they fetched.
        hits: Number of blocks that were in memory when asked for.

    Peak memory: the limit, and the blocks of one call.
    """

    def __init__(self, store: Store, *, limit: int = CACHED_BYTES, block_bytes: int = BLOCK_BYTES) -> None:
        self.store = store
        self.limit = limit
        self.block_bytes = block_bytes
        self.requests = 0
        self.fetched_bytes = 0
        self.hits = 0
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def read(self, key: str, size: int, blocks: Iterable[int]) -> dict[int, bytes]:
        """Return some blocks of an object of ``size`` bytes, by number."""
        found: dict[int, bytes] = {}
        missing = []
        with self._lock:
            for block in blocks:
                data = self._blocks.get((key, block))
                if data is None:
                    missing.append(block)
                else:
                    self._blocks.move_to_end((key, block))
                    found[block] = data
            self.hits += len(found)
        width, runs = self.block_bytes, _runs(missing)

        def fetch(run: tuple[int, int]) -> bytes:
            return self.store.read_range(key, run[0] * width, min(run[1] * width, size))

        fetched = map_in_threads(fetch, runs, workers=REQUESTS)
        for (begin, end), data in zip(runs, fetched, strict=True):
            pieces = {begin + i: data[i * width : (i + 1) * width] for i in range(end - begin)}
            found.update(pieces)
            self._keep(key, pieces, len(data))
        return found

    def _keep(self, key: str, pieces: dict[int, bytes], fetched: int) -> None:
        with self._lock:
            self.requests += 1
            self.fetched_bytes += fetched
            for block, data in pieces.items():
                self._held += len(data) - len(self._blocks.pop((key, block), b""))
                self._blocks[key, block] = data
            while self._held > self.limit and self._blocks:
                _, dropped = self._blocks.popitem(last=False)
                self._held -= len(dropped)


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """Return half-open ranges of consecutive blocks, none longer than `MOST_BLOCKS`."""
    runs = []
    for _, group in groupby(enumerate(sorted(blocks)), lambda pair: pair[1] - pair[0]):
        members = [block for _, block in group]
        first, end = members[0], members[-1] + 1
        runs += [(b, min(b + MOST_BLOCKS, end)) for b in range(first, end, MOST_BLOCKS)]
    return runs
