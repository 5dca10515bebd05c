"""The earlier run that a run follows: its files, verified against its manifest, and the migration since."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store, StoredObject, open_store
from partition_ops.storage.store import check_key, sha256_of

OTHER_RUN = (
    "Name another run with --previous (in Airflow the param 'previous'), or none: then the graph is"
    " partitioned from scratch."
)
PARTITION_AGAIN = "Run 'partition' again, with --previous and a finished run, or without it."
DRIFTED = "the share of edges cut is"  # how the reason in it begins if the cut has drifted


class VerifiedRun(Store):
    """The artifacts of a finished run; each is verified against the SHA-256 in the manifest when it is read.

    Objects that the manifest does not list do not exist for this store. If a listed object is missing or has
    changed, reading it raises `InvalidInputError`. Objects are read as a whole, even to read a range of them.

    Args:
        run: Root of the run.
        remedy: What to do about a damaged file, for messages.

    Attributes:
        run: The root of the run, not verified.
        manifest: Its manifest.
        manifest_sha256: SHA-256 of the manifest, and so of everything that the run has written.
        listed: Artifacts by key below the root of the run.

    Raises:
        InvalidInputError: The run is not finished.
    """

    def __init__(self, run: Store, *, remedy: str = OTHER_RUN) -> None:
        super().__init__(run.uri)
        self.settings = run.settings
        self.run = run
        self.manifest = read_manifest(run, remedy=remedy)
        self.manifest_sha256 = hashlib.sha256(run.read_bytes(layout.MANIFEST)).hexdigest()
        self.listed = {entry["key"]: Artifact(**entry) for entry in self.manifest["artifacts"]}
        self._remedy = remedy
        self._prefix = ""
        self._verified: set[str] = set()

    def child(self, prefix: str) -> VerifiedRun:
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
        if full in self._verified or full == layout.MANIFEST:
            return self.run.local_copy(full)
        path = self.run.checked_copy(full, self.listed[full].sha256)
        if path is None:
            path = self.run.local_copy(full)
            self._compare(key, sha256_of(path))  # a file on a local disk may have become right since
        self._verified.add(full)
        return path

    def checked_copy(self, key: str, sha256: str) -> Path | None:
        full = self._checked(key)
        known = sha256 if full == layout.MANIFEST else self.listed[full].sha256
        return self.run.checked_copy(full, sha256) if sha256 == known else None

    def snapshot(self, *, but: Collection[str] = ()) -> AbstractContextManager[None]:
        return self.run.snapshot(but=but)

    def refuse(self, key: str, found: str, expected: str) -> NoReturn:
        """Raise the error that a file is not the one that the run wrote."""
        raise InvalidInputError(
            f"{self.uri_of(key)} is not the file that the run wrote",
            found=found,
            expected=f"{expected}, as in {self.run.uri_of(layout.MANIFEST)}",
            remedy=self._remedy,
        )

    def _checked(self, key: str) -> str:
        """Return the key below the root of the run; keys that the manifest does not list are rejected."""
        full = self._prefix + key
        if self.stat(key) is None:
            manifest = self.run.uri_of(layout.MANIFEST)
            raise InvalidInputError(f"{manifest} does not list {full}", remedy=self._remedy)
        return full

    def _compare(self, key: str, sha256: str) -> None:
        expected = self.listed[self._prefix + key].sha256
        if sha256 != expected:
            self.refuse(key, f"SHA-256 {sha256}", f"SHA-256 {expected}")


def verified_run(run: Store) -> VerifiedRun:
    """Return the run as a `VerifiedRun`; a `VerifiedRun` is returned unchanged."""
    return run if isinstance(run, VerifiedRun) else VerifiedRun(run)


def read_migration(run: Store) -> dict[str, Any] | None:
    """Return the checked ``assignment/migration.json`` of a run, or None if it follows no other run.

    Raises:
        InvalidInputError: The file is broken.
    """
    if not run.exists(layout.MIGRATION):
        return None
    return read_document(run, layout.MIGRATION, "migration")


def drift_of(run: Store) -> str:
    """Return why the edge cut of an incremental run has drifted from that of the last full run, or ``""``."""
    reason: str = (read_migration(run) or {}).get("reason") or ""
    return reason if reason.startswith(DRIFTED) else ""


def keeps_old_ids(migration: dict[str, Any]) -> bool:
    """Return whether old nodes still have their type-wise IDs of the earlier run."""
    return any(one["old"] for one in migration["node_types"].values())


@contextmanager
def open_earlier_run(run: Store) -> Iterator[VerifiedRun]:
    """Open the earlier run that ``assignment/migration.json`` names, with the settings of this one.

    Raises:
        InvalidInputError: The earlier run is gone, or was replaced by another.
    """
    migration = read_migration(run)
    if migration is None:
        raise InvalidInputError(f"{run.uri} follows no earlier run")
    with open_store(migration["previous"]["run"], run.settings) as store:
        expected = migration["previous"]["manifest_sha256"]
        earlier = VerifiedRun(store, remedy=PARTITION_AGAIN) if store.exists(layout.MANIFEST) else None
        if earlier is None or earlier.manifest_sha256 != expected:
            raise InvalidInputError(
                f"{store.uri} is no longer the run that {run.uri} follows",
                expected=f"a manifest with the SHA-256 {expected}",
                remedy=PARTITION_AGAIN,
            )
        yield earlier
