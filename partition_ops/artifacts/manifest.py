"""Readers of the manifest of an output, of its time, and of the report of its validation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import find_document
from partition_ops.errors import InvalidInputError, TransientStorageError
from partition_ops.storage import Store

RUN_AGAIN = "Run the job again: finished tasks stay, and it writes the manifest again."


def read_manifest(output: Store, *, remedy: str = RUN_AGAIN) -> dict[str, Any]:
    """Return the checked ``manifest.json`` of an output.

    Args:
        output: Its root.
        remedy: What the message about a broken manifest recommends.

    Raises:
        InvalidInputError: There is no manifest, so the output is not finished; or it is broken.
    """
    expected = "the manifest of a finished output, as 'publish' writes it"
    found = find_document(output, layout.MANIFEST, "manifest", "is damaged", expected=expected, remedy=remedy)
    if found is None:
        raise InvalidInputError(
            f"{output.uri} is not a finished output: there is no {layout.MANIFEST}",
            remedy="Give the OUTPUT of 'partition-ops run', or wait until the run is published.",
        )
    return found


def published_at(output: Store) -> str:
    """Return when the manifest of an output was written, in ISO format; 1970 if there is none."""
    found = output.stat(layout.MANIFEST)
    return datetime.fromtimestamp(found.modified if found else 0, tz=UTC).isoformat(timespec="seconds")


def not_as_listed(output: Store, entry: Mapping[str, Any], found: str) -> TransientStorageError:
    """Return the error for an artifact that is not what the manifest lists: damaged, or being written."""
    return TransientStorageError(
        f"{output.uri_of(entry['key'])} is not what the manifest lists",
        found=found,
        expected=f"{entry['size']} bytes with SHA-256 {entry['sha256']}",
        remedy="If another process is writing the run, wait until it has finished. Otherwise rebuild the"
        " file with 'partition-ops run … --check-artifacts'.",
    )


def read_validation_report(output: Store) -> dict[str, Any]:
    """Return ``validation/report.json`` of an output, finished or not.

    Raises:
        InvalidInputError: There is no report, or it is broken.
    """
    report: Any = output.read_json(layout.VALIDATION_REPORT)
    # not checked against its schema: it is long, and every task that builds a partition reads it
    if not isinstance(report, dict) or not isinstance(report.get("files"), list):
        raise InvalidInputError(
            f"{output.uri_of(layout.VALIDATION_REPORT)} is not what 'validate' writes",
            expected="an object with the list 'files'",
            remedy="Run 'validate' again, or everything with 'partition-ops run'.",
        )
    return report
