"""Artifacts whose content is not what was written: ``run --check-artifacts`` makes them again."""

from __future__ import annotations

import logging
from typing import Any

from partition_ops import artifacts
from partition_ops.errors import InvalidInputError
from partition_ops.parallel import map_in_threads
from partition_ops.progress import Progress
from partition_ops.storage import Store
from partition_ops.storage.digest import sha256_of_object
from partition_ops.tasks import read_record

logger = logging.getLogger("partition_ops")

Entry = dict[str, Any]


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
        destination.delete([artifacts.MANIFEST])
        destination.delete(damaged)
    return damaged


def _listed(destination: Store) -> list[Entry]:
    """The artifacts of all records; a broken record counts as none, here as for its task."""
    found: list[Entry] = []
    for entry in destination.list(f"{artifacts.RECORDS}/"):
        task = entry.key.removeprefix(f"{artifacts.RECORDS}/").removesuffix(".json")
        if entry.key == artifacts.record(task):
            try:
                found += read_record(destination, task)["artifacts"]
            except InvalidInputError:
                continue
    return found
