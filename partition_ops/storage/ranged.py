"""An object of a store as a file of which only what is read is fetched."""

from __future__ import annotations

import io

from partition_ops.storage.base import Store


class RangedFile(io.RawIOBase):
    """For a reader that jumps to what it needs, such as the end of a Parquet file; it may be remote.

    Args:
        store: The root.
        key: The object; one that is not there counts as empty.
    """

    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key
        entry = store.stat(key)
        self._size = entry.size if entry else 0
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        data = self._store.read_range(self._key, self._at, end)
        self._at = end
        return data
