"""The check that keeps a store from changing anything once a lock is lost."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Fence(Protocol):
    """Keeps a store from changing anything once a lock is lost."""

    def check(self, *, seconds: float = 0.0) -> None:
        """Raise a `ConflictError` if the lock is lost, or was before a check at most so many seconds ago."""

    def expire(self) -> None:
        """Let the next check read the lock: this process has written a lock."""

    def held(self) -> AbstractContextManager[None]:
        """Check the lock, and keep others from taking it over during the block, if the system can do that."""


class Fenced:
    """Place of the fence of a store, which its children share."""

    fence: Fence | None = None
