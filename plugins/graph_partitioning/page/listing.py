"""The files that the page shows: the artifacts in the record of a task, or the files of a failed validation.

No other files of the storage are served.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.runs import GraphRun
from partition_ops.artifacts.layout import MANIFEST, SCRATCH
from partition_ops.errors import InvalidInputError
from partition_ops.storage import StoredObject
from partition_ops.system.json_documents import check_document

RECORD = re.compile(r"records/[A-Za-z0-9_.-]+\.json")
FINDINGS = re.compile(r"validation/(report\.json|data_docs/([a-z_]+/)?[a-z_]+\.html)")
"""Files that ``validate`` writes before it fails, when no record lists them."""
SHOWN_AS = {
    ".csv": "text/plain; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types of the files that a browser shows; all others are downloads."""


@dataclass(frozen=True)
class Listing:
    """The artifacts of a task.

    Attributes:
        key: Key of the document that says so: the record of the task, or the manifest of the whole run.
        document: Its content.
    """

    key: str
    document: dict[str, Any]

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        """Artifacts without scratch files, which are removed when the run is published."""
        return [entry for entry in self.document["artifacts"] if not entry["key"].startswith(f"{SCRATCH}/")]

    @property
    def scratch(self) -> int:
        """Number of scratch files."""
        return len(self.document["artifacts"]) - len(self.artifacts)

    def may_serve(self, key: str) -> bool:
        return key == self.key or any(entry["key"] == key for entry in self.artifacts)


def read_listing(run: GraphRun) -> Listing | None:
    """Return the artifacts of the task, or None until it has succeeded.

    Raises:
        PartitionOpsError: The storage cannot be reached, or the document is broken.
    """
    if run.record is None:
        return None
    if run.record != MANIFEST and not RECORD.fullmatch(run.record):
        raise InvalidInputError("The task names a key that is not a record", found=repr(run.record))
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        document = store.read_json(run.record)
        schema = "manifest" if run.record == MANIFEST else "record"
        check_document(document, schema, where=store.uri_of(run.record))
    return Listing(run.record, document)


def read_findings(run: GraphRun) -> list[StoredObject]:
    """Return the files of a validation of this run, whether or not it has succeeded.

    Raises:
        PartitionOpsError: The storage cannot be reached.
    """
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        return [entry for entry in store.list("validation/") if FINDINGS.fullmatch(entry.key)]


def media_type(key: str) -> str | None:
    """Return the media type with which a browser shows the file; None for a download."""
    return SHOWN_AS.get(PurePosixPath(key).suffix)
