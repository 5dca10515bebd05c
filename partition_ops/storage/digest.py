"""Digests of objects of which no copy is kept here."""

from __future__ import annotations

import hashlib

from partition_ops.storage.base import Store, sha256_of
from partition_ops.system.parallel import map_in_threads

BLOCK_BYTES = 16 << 20
READS = 2  # blocks on their way at a time


def sha256_of_object(store: Store, key: str, size: int) -> str:
    """SHA-256 of an object of so many bytes, in hex. Memory: 48 MiB."""
    if store.is_local(key):
        return sha256_of(store.local_copy(key))
    digest = hashlib.sha256()

    def read(begin: int) -> bytes:
        return store.read_range(key, begin, min(begin + BLOCK_BYTES, size))

    for block in map_in_threads(read, range(0, size, BLOCK_BYTES), workers=READS):
        digest.update(block)
    return digest.hexdigest()
