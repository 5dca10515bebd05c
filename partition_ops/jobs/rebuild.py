"""What ``run`` makes again: what has no sound record and, if asked for, what is not as it was written."""

from __future__ import annotations

import logging
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.tasks import read_record
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.storage.store import REQUESTS, sha256_of_object
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Progress

logger = logging.getLogger("partition_ops")

Entry = dict[str, Any]


def forget_unrecorded(destination: Store) -> list[str]:
    """Make a task whose record is broken, or gone since publishing, one that has not been done.

    The manifest goes first, then what it lists and no other record does: the task may not write it again.

    Args:
        destination: Root of a run, which nobody else may write to meanwhile.

    Returns:
        The names of the tasks.
    """
    records = _records(destination)
    try:
        manifest = read_manifest(destination)
    except InvalidInputError:
        manifest = {"options": {}, "artifacts": []}
    forgotten = [name for name, record in records.items() if record is None]
    forgotten += [name for name in manifest["options"] if name not in records]
    if forgotten:
        known = {entry["key"] for record in records.values() if record for entry in record["artifacts"]}
        destination.delete([layout.MANIFEST])
        destination.delete(entry["key"] for entry in manifest["artifacts"] if entry["key"] not in known)
        destination.delete(layout.record(name) for name in forgotten)
    return forgotten


def remove_damaged(destination: Store, progress: Progress) -> list[str]:
    """Remove every artifact that has another SHA-256 than its record says: its task is done again then.

    The manifest goes before the first of them. What is gone or has another size needs no reading, and is left
    to the tasks.

    Args:
        destination: Root of a run, which nobody else may write to meanwhile.
        progress: Shows the bytes read: all there are.

    Returns:
        The keys of what was removed.

    Peak memory: 48 MiB a core.
    """
    listed = _listed(destination)
    there = destination.stat_all(entry["key"] for entry in listed)
    same_size = [e for e, found in zip(listed, there, strict=True) if found and found.size == e["size"]]
    damaged = []
    with progress.step("Checking artifacts", sum(entry["size"] for entry in same_size), "bytes") as advance:

        def digest(entry: Entry) -> str:
            found = sha256_of_object(destination, entry["key"], entry["size"])
            advance(entry["size"])
            return found

        for entry, found in zip(same_size, map_in_threads(digest, same_size), strict=True):
            if found != entry["sha256"]:
                damaged.append(entry["key"])
                said = destination.uri_of(entry["key"]), found, entry["sha256"]
                logger.warning("%s is damaged and will be made again: SHA-256 %s, expected %s", *said)
    if damaged:
        destination.delete([layout.MANIFEST])
        destination.delete(damaged)
    return damaged


def _listed(destination: Store) -> list[Entry]:
    """The artifacts of all records; a broken record counts as none, here as for its task."""
    records = _records(destination).values()
    return [entry for record in records if record for entry in record["artifacts"]]


def _records(destination: Store) -> dict[str, dict[str, Any] | None]:
    """The record of every task that has left one; None for one that is broken."""

    def read(name: str) -> dict[str, Any] | None:
        try:
            return read_record(destination, name)
        except InvalidInputError as error:
            logger.warning("%s", error.problem)
            return None

    keys = [entry.key for entry in destination.list(f"{layout.RECORDS}/")]
    tasks = [key.removeprefix(f"{layout.RECORDS}/").removesuffix(".json") for key in keys]
    tasks = [task for task, key in zip(tasks, keys, strict=True) if key == layout.record(task)]
    return dict(zip(tasks, map_in_threads(read, tasks, workers=REQUESTS), strict=True))
