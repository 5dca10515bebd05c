"""A finished run, read by somebody who believes nothing but its manifest."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from io import UnsupportedOperation
from pathlib import Path
from typing import NoReturn

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store, StoredObject
from partition_ops.storage.store import NewObject, check_key, sha256_of

WITHOUT = (
    "Name another run with --previous (in Airflow the param 'previous'), or none: then the graph is"
    " partitioned anew."
)


class ProvenStore(Store):
    """What a finished run has written, and nothing else; every object is held against the manifest's SHA-256.

    What the manifest does not list is not there. An object that it lists, and that is gone or another one, is
    an `InvalidInputError` for whoever looks at it. Objects are read as a whole, also for a range of them.

    Args:
        run: Root of the run.
        remedy: What to do about a damaged file.

    Attributes:
        run: The same, as it is.
        manifest: Its manifest.
        manifest_sha256: SHA-256 of that, and so of all that the run has written.
        listed: Artifacts by key below the root of the run.

    Raises:
        InvalidInputError: The run is not finished.
    """

    def __init__(self, run: Store, *, remedy: str = WITHOUT) -> None:
        super().__init__(run.uri)
        self.settings = run.settings
        self.run = run
        self.manifest = read_manifest(run, remedy=remedy)
        self.manifest_sha256 = hashlib.sha256(run.read_bytes(layout.MANIFEST)).hexdigest()
        self.listed = {entry["key"]: Artifact(**entry) for entry in self.manifest["artifacts"]}
        self._remedy = remedy
        self._prefix = ""
        self._proven: set[str] = set()

    @property
    def place(self) -> str:
        return f"{self.run.place}/{self._prefix}".rstrip("/")

    def child(self, prefix: str) -> ProvenStore:
        below = copy.copy(self)
        below.uri, below._prefix = self.uri_of(prefix), f"{self._prefix}{check_key(prefix)}/"
        return below

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        begin = self._prefix + prefix
        for full in sorted(full for full in self.listed if full.startswith(begin)):
            found = self.stat(full.removeprefix(self._prefix))
            if found is not None:
                yield found

    def stat(self, key: str) -> StoredObject | None:
        full = self._prefix + key
        artifact = self.listed.get(full)
        if artifact is None and full != layout.MANIFEST:
            return None
        found = self.run.stat(full)
        if artifact is not None and (found is None or found.size != artifact.size):
            self.refuse(key, f"{found.size} bytes" if found else "no such file", f"{artifact.size} bytes")
        return found and replace(found, key=key)

    def read_bytes(self, key: str) -> bytes:
        full = self._checked(key)
        data = self.run.read_bytes(full)
        if full != layout.MANIFEST:
            self._compare(key, hashlib.sha256(data).hexdigest())
        return data

    def local_copy(self, key: str) -> Path:
        full = self._checked(key)
        path = self.run.local_copy(full)
        if full not in self._proven and full != layout.MANIFEST:
            self._compare(key, sha256_of(path))
            self._proven.add(full)
        return path

    def refuse(self, key: str, found: str, expected: str) -> NoReturn:
        """Say that a file is not the one that the run has written."""
        raise InvalidInputError(
            f"{self.uri_of(key)} is not as the run has written it",
            found=found,
            expected=f"{expected}, as in {self.run.uri_of(layout.MANIFEST)}",
            remedy=self._remedy,
        )

    def _checked(self, key: str) -> str:
        """The key below the root of the run; what the manifest does not list is refused."""
        full = self._prefix + key
        if self.stat(key) is None:
            manifest = self.run.uri_of(layout.MANIFEST)
            raise InvalidInputError(f"{manifest} does not list {full}", remedy=self._remedy)
        return full

    def _compare(self, key: str, sha256: str) -> None:
        expected = self.listed[self._prefix + key].sha256
        if sha256 != expected:
            self.refuse(key, f"SHA-256 {sha256}", f"SHA-256 {expected}")

    def create(self, key: str) -> AbstractContextManager[NewObject]:
        raise UnsupportedOperation(key)

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None) -> bool:
        raise UnsupportedOperation(key)

    def delete(self, keys: Iterable[str]) -> None:
        raise UnsupportedOperation(", ".join(keys))

    def close(self) -> None:
        """Nothing to give back: the run belongs to somebody else."""


def proven(run: Store) -> ProvenStore:
    """The run, which may be one already; what has been read then is not read again."""
    return run if isinstance(run, ProvenStore) else ProvenStore(run)
