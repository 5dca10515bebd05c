"""What a process knows of objects on S3 that nobody else changes meanwhile: `KnownObjects`."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from partition_ops.storage.store import StoredObject

SMALL_BYTES = 1 << 20  # objects up to this size stay in memory
MEMORY_BYTES = 32 << 20  # all of them together


@dataclass(frozen=True)
class Known:
    """The state of an object."""

    # its full key in the bucket, size and tag; None if it does not exist. The tag is empty while the object
    # is uploaded in the background
    entry: StoredObject | None
    data: bytes | None = None  # its content, if it is small and was read or written


ABSENT = Known(None)


@dataclass
class Snapshot:
    """Objects below a prefix."""

    prefix: str  # prefix of the full keys; empty, or with ``/`` at the end
    but: frozenset[str]  # full keys below it that others change, such as locks: only their names are known
    complete: bool  # whether objects that are not in ``objects`` do not exist
    # state by full key; None while an object is written, and after a write failed
    objects: dict[str, Known | None] = field(default_factory=dict)

    def covers(self, key: str) -> bool:
        return key.startswith(self.prefix) and key not in self.but


class KnownObjects:
    """Sizes, tags and small contents of objects below prefixes, for as long as a snapshot of them is open.

    A snapshot is correct because nobody else changes its objects: this process holds the lock of an output,
    or reads an input. Reads compare the tag of what they get with the snapshot, and so find an input that
    somebody has changed. Several threads can use it. Memory: `MEMORY_BYTES`, and 500 bytes an object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: list[Snapshot] = []
        self._bytes = 0

    @contextmanager
    def snapshot(
        self, prefix: str, listed: Iterable[StoredObject], *, complete: bool, but: Collection[str] = ()
    ) -> Iterator[None]:
        """Answer from a listing during a block.

        Args:
            prefix: Prefix of the full keys.
            listed: Objects below it, with their full keys.
            complete: Whether these are all objects below it.
            but: Full keys that others change.
        """
        taken = Snapshot(prefix, frozenset(but), complete)
        taken.objects = {entry.key: Known(entry) for entry in listed}
        with self._lock:
            self._snapshots.append(taken)
        try:
            yield
        finally:
            with self._lock:
                self._snapshots.remove(taken)
                self._bytes -= sum(len(one.data) for one in taken.objects.values() if one and one.data)

    def find(self, key: str) -> Known | None:
        """Return the state of an object, `ABSENT` if it does not exist, or None if that is not known."""
        with self._lock:
            found = self._of(key)
            return None if found is None else found.objects.get(key, ABSENT if found.complete else None)

    def below(self, prefix: str) -> list[StoredObject] | None:
        """Return the objects below a prefix, sorted by key, or None if some of them are not known."""
        with self._lock:
            found = self._of(prefix)
            if found is None or not found.complete:
                return None
            states = [state for key, state in sorted(found.objects.items()) if key.startswith(prefix)]
            if None in states:
                return None
            return [state.entry for state in states if state is not None and state.entry is not None]

    def learn(self, entry: StoredObject | None, key: str, data: bytes | None = None) -> None:
        """Note what a request has found, unless this process has changed the object meanwhile.

        Args:
            entry: The object with its full key, or None if it does not exist.
            key: The full key.
            data: The content.
        """
        with self._lock:
            found = self._of(key)
            if found is None:
                return
            before = found.objects.get(key, ABSENT if found.complete else Known(entry))
            if before is not None and before.entry == entry:
                self._set(found, key, Known(before.entry, self._fitting(data) or before.data))

    def changing(self, key: str) -> None:
        """Forget an object that is about to be changed; `wrote` or `removed` follows if that succeeds."""
        self._change(key, None)

    def wrote(self, entry: StoredObject, data: bytes | None = None) -> None:
        """Note an object, with its full key, that this process has written."""
        self._change(entry.key, Known(entry, data))

    def removed(self, key: str) -> None:
        """Note that this process has removed an object."""
        self._change(key, ABSENT)

    def _change(self, key: str, state: Known | None) -> None:
        with self._lock:
            found = self._of(key)
            if found is not None:
                self._set(found, key, None)
                if state is not None:
                    self._set(found, key, replace(state, data=self._fitting(state.data)))

    def _set(self, snapshot: Snapshot, key: str, state: Known | None) -> None:
        before = snapshot.objects.get(key)
        self._bytes += len((state and state.data) or b"") - len((before and before.data) or b"")
        snapshot.objects[key] = state

    def _fitting(self, data: bytes | None) -> bytes | None:
        """Return a content if it fits in memory."""
        fits = data is not None and len(data) <= min(SMALL_BYTES, MEMORY_BYTES - self._bytes)
        return data if fits else None

    def _of(self, key: str) -> Snapshot | None:
        return next((one for one in self._snapshots if one.covers(key)), None)
