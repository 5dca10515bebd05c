"""A worker that dies while it writes."""

from __future__ import annotations

from pathlib import Path

from partition_ops.storage.local_store import LocalStore


class Killed(BaseException):
    """A worker's death: nothing may catch it."""


class DyingStore(LocalStore):
    """Dies at a given write, after half of the object has been written and before it appears."""

    def __init__(self, root: Path, lives: int) -> None:
        super().__init__(root)
        self.lives = lives

    def create(self, key: str):  # type: ignore[no-untyped-def]
        self.lives -= 1
        if self.lives < 0:
            (self.root / key).parent.mkdir(parents=True, exist_ok=True)
            (self.root / key).with_name(".partial-0123456789abcdef").write_bytes(b"half")
            raise Killed
        return super().create(key)
