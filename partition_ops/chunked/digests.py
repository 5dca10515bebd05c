"""SHA-256 of the input's files, computed while this process still imports the code that reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from weakref import WeakKeyDictionary

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import PartitionOpsError
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of

FileState = tuple[int, ...]
THREADS = 2  # one hashes while the other waits for the interpreter's lock, which imports hold
BLOCK_BYTES = 32 << 20  # between two waits for that lock
_known: WeakKeyDictionary[Store, dict[str, tuple[FileState, str]]] = WeakKeyDictionary()


def file_state(path: Path) -> FileState:
    """Return what changes whenever the content of a file does: nobody can set the time of its inode."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def hashed_ahead(source: Store) -> Iterator[None]:
    """Hash the files of a graph on the local disk during the block, which does something else.

    Files that are not hashed by the end of the block, and all files of other stores, are left to
    `input_digest`. Errors are left to those who read the files.

    Memory: 64 MiB.
    """
    ended = Event()
    pool = ThreadPoolExecutor(THREADS)
    pool.submit(_hash_files, source, pool, ended)
    try:
        yield
    finally:
        ended.set()
        pool.shutdown(cancel_futures=True)


def input_digest(source: Store, key: str) -> str:
    """Return the SHA-256 of a file of the input, in hex; a file that was hashed ahead is not read again.

    Raises:
        InvalidInputError: The file does not exist, or cannot be read.
    """
    path = source.local_copy(key)
    state, digest = _known.get(source, {}).get(key, ((), ""))
    return digest if state == file_state(path) else sha256_of(path)


def _hash_files(source: Store, pool: ThreadPoolExecutor, ended: Event) -> None:
    with suppress(PartitionOpsError, OSError):
        keys = [key for key in load_metadata(source).files() if source.is_local(key)]
        found = _known.setdefault(source, {})
        for key in keys:
            pool.submit(_hash, source, key, found, ended)


def _hash(source: Store, key: str, found: dict[str, tuple[FileState, str]], ended: Event) -> None:
    with suppress(PartitionOpsError, OSError):
        path, digest = source.local_copy(key), hashlib.sha256()
        state = file_state(path)
        block = bytearray(min(BLOCK_BYTES, state[2] + 1))
        with path.open("rb", buffering=0) as stream:
            while not ended.is_set():
                count = stream.readinto(block)
                if not count:
                    found[key] = state, digest.hexdigest()
                    return
                digest.update(memoryview(block)[:count])
