"""What a task wrote, read from the record that it left; nothing else of the storage is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.tasks import read_record

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.runs import GraphRun

SHOWN_AS = {
    ".css": "text/plain; charset=utf-8",
    ".csv": "text/plain; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types of the files that a browser shows; all others are downloads."""


@dataclass(frozen=True)
class Listing:
    """The record of a task and the keys of its artifacts."""

    record: dict[str, Any]

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.record["artifacts"]
        return found

    def artifact(self, key: str) -> dict[str, Any] | None:
        return next((entry for entry in self.artifacts if entry["key"] == key), None)


def read_listing(run: GraphRun) -> Listing | None:
    """What the task wrote, or None while it has not finished well.

    Raises:
        PartitionOpsError: The storage cannot be reached, or the record is broken.
    """
    if run.record is None:
        return None
    folder, _, name = run.record.rpartition("/")
    if folder != "records" or not name.endswith(".json"):
        raise InvalidInputError("The task names a record that is none", found=repr(run.record))
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        return Listing(read_record(store, name.removesuffix(".json")))


def media_type(key: str) -> str | None:
    """How a browser shows the file; None where it is a download."""
    return SHOWN_AS.get(PurePosixPath(key).suffix)
