"""The earlier run that a run has followed, for the stages after ``partition``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.proven import ProvenStore
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document

AGAIN = "Run 'partition' again, with --previous RUN for one that is there and whole, or without."
MIGRATION = f"{layout.ASSIGNMENT}/{layout.MIGRATION}"


def read_migration(run: Store) -> dict[str, Any] | None:
    """The checked ``assignment/migration.json`` of a run, or None where it has followed no other.

    Raises:
        InvalidInputError: It is broken.
    """
    if not run.exists(MIGRATION):
        return None
    report: dict[str, Any] = run.read_json(MIGRATION)
    check_document(report, "migration", where=run.uri_of(MIGRATION))
    return report


def keeps_ids(migration: dict[str, Any]) -> bool:
    """Whether type-wise IDs of old nodes were still those of the earlier run."""
    return any(one["old"] for one in migration["node_types"].values())


@contextmanager
def open_followed(run: Store) -> Iterator[ProvenStore]:
    """The earlier run that ``assignment/migration.json`` names, reached as this one is.

    Raises:
        InvalidInputError: It is not there any more, or is another one by now.
    """
    migration = read_migration(run)
    if migration is None:
        raise InvalidInputError(f"{run.uri} has followed no earlier run")
    with open_store(migration["previous"]["run"], run.settings) as store:
        expected = migration["previous"]["manifest_sha256"]
        earlier = ProvenStore(store, remedy=AGAIN) if store.exists(layout.MANIFEST) else None
        if earlier is None or earlier.manifest_sha256 != expected:
            raise InvalidInputError(
                f"{store.uri} is not the run any more that {run.uri} has followed",
                expected=f"a manifest with the SHA-256 {expected}",
                remedy=AGAIN,
            )
        yield earlier
