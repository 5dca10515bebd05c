"""The manifest of a finished output."""

from __future__ import annotations

from typing import Any

from partition_ops import artifacts
from partition_ops.documents import check_document
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store


def read_manifest(output: Store) -> dict[str, Any]:
    """The checked ``manifest.json`` of an output.

    Raises:
        InvalidInputError: There is none, so the output is not finished; or it is broken.
    """
    if not output.exists(artifacts.MANIFEST):
        raise InvalidInputError(
            f"{output.uri} is not a finished output: there is no {artifacts.MANIFEST}",
            remedy="Name the OUTPUT of 'partition-ops run', or wait until the job has been published.",
        )
    manifest: dict[str, Any] = output.read_json(artifacts.MANIFEST)
    check_document(manifest, "manifest", where=output.uri_of(artifacts.MANIFEST))
    return manifest
