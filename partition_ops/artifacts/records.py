"""Records of finished tasks, ``records/<task>.json``: read and forget them, check the artifacts they list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import find_document
from partition_ops.artifacts.stage import scratch_of_others
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import sha256_of_object
from partition_ops.system.parallel import map_in_threads

Record = dict[str, Any]
Check = Literal["record", "artifacts", "content"]  # how much of a task's results is looked at


def read_record(destination: Store, name: str) -> Record:
    """Return the record of a finished task.

    Raises:
        InvalidInputError: The task has not been done, or its record is broken.
    """
    record = find_document(
        destination,
        layout.record(name),
        "record",
        f"is broken, so the task {name!r} counts as not done",
        expected="the record that the task wrote",
        remedy="Run that stage again, with the same --output, or everything with 'partition-ops run'.",
    )
    if record is None:
        raise InvalidInputError(
            f"The task {name!r} has not been done in {destination.uri}",
            remedy="Run that stage first, with the same --output, or everything with 'partition-ops run'.",
        )
    return record


def read_records(destination: Store, names: Iterable[str]) -> list[Record]:
    """Return the records of several tasks, as `read_record` does."""
    return [*map_in_threads(lambda name: read_record(destination, name), names, workers=destination.requests)]


def forget_task(destination: Store, name: str) -> None:
    """Remove the artifacts of a task, folders that become empty, and its record.

    The manifest is removed first, unless the task wrote only scratch, which no manifest lists.
    """
    key = layout.record(name)
    if not destination.exists(key):
        return
    try:
        written = [entry["key"] for entry in read_record(destination, name)["artifacts"]]
    except InvalidInputError:
        written = []
    if not written or not all(map(is_scratch, written)):
        destination.delete([layout.MANIFEST])
    destination.delete([*written, key])
    for folder in {name.rpartition("/")[0] for name in written} - {""}:
        destination.delete_empty(folder)


def remove_leftovers(destination: Store, folder: str) -> None:
    """Remove from a folder what killed tasks have left, and scratch; files of others stay.

    Args:
        destination: Root of a run, which nobody else may write to meanwhile.
        folder: ``validation`` or ``scratch``.
    """
    destination.delete_unfinished([folder])
    others, keys = scratch_of_others(), [entry.key for entry in destination.list(f"{folder}/")]
    destination.delete(key for key in keys if layout.is_leftover(key) or key.startswith(others))
    destination.delete_empty_folders(folder)


def remove_ingested(graph: Store) -> None:
    """Remove from the root of an ingested graph what ``ingest`` has written; files of others stay.

    Args:
        graph: The root, which nobody else may write to meanwhile.
    """
    graph.delete([METADATA])  # first: without it there is no graph
    keys = [entry.key for entry in graph.list()]
    graph.delete(key for key in keys if layout.is_ingested(key))
    for folder in {key.split("/")[0] for key in keys if "/" in key}:
        graph.delete_unfinished([folder])
        graph.delete_empty_folders(folder)


def stored_objects(record: Mapping[str, Any]) -> list[StoredObject]:
    """Return the input files of a task as they were when it began."""
    return [StoredObject(entry["path"], entry["size"], entry["tag"]) for entry in record.get("inputs", [])]


def conversion_tasks(destination: Store, num_parts: int) -> list[str]:
    """Return the names of the tasks that a reader of the partitions comes after."""
    last = config_task(destination)
    return [last] if last == layout.TEXT_TASK else [last, *map(part_task, range(num_parts))]


def config_task(destination: Store) -> str:
    """Return the name of the task that wrote the book of an output."""
    return layout.TEXT_TASK if destination.exists(layout.record(layout.TEXT_TASK)) else layout.CONFIG_TASK


def part_artifacts(destination: Store, part: int, folders: Iterable[str]) -> list[dict[str, Any]]:
    """Return what was written for a partition, as its record lists it.

    Args:
        destination: Root of the run.
        part: Number of the partition.
        folders: Folders of the partition in all formats, to find its files among those of all partitions.
    """
    if config_task(destination) != layout.TEXT_TASK:
        found: list[dict[str, Any]] = read_record(destination, part_task(part))["artifacts"]
        return found
    prefixes = tuple(f"{folder}/" for folder in folders)
    listed = read_record(destination, layout.TEXT_TASK)["artifacts"]
    return [entry for entry in listed if entry["key"].startswith(prefixes)]


def part_task(part: int) -> str:
    """Return the name of the task that builds a partition."""
    return f"{layout.PART_TASK}{part}"


def damaged_artifacts(
    destination: Store,
    listed: Sequence[Mapping[str, Any]],
    check: Check = "artifacts",
    advance: Callable[[int], object] | None = None,
) -> list[str]:
    """Return the keys of artifacts that are missing or not as they were written, in the order of the list.

    Args:
        destination: Root of the run.
        listed: Artifacts as a record or a manifest lists them.
        check: As for `partition_ops.artifacts.tasks.Task.status`.
        advance: Called with the size of each artifact once it is checked.
    """
    found = destination.stat_all(entry["key"] for entry in listed)

    def differs(pair: tuple[Mapping[str, Any], StoredObject | None]) -> bool:
        entry, there = pair
        key, size = entry["key"], entry["size"]
        other = there is None or there.size != size
        local_scratch = is_scratch(key) and destination.is_local(key)
        if not other and (check == "content" or local_scratch):
            other = sha256_of_object(destination, key, size, entry["sha256"]) != entry["sha256"]
        if advance is not None:
            advance(size)
        return other

    differences = map_in_threads(differs, zip(listed, found, strict=True))
    return [entry["key"] for entry, other in zip(listed, differences, strict=True) if other]


def digests_of(record: Record) -> dict[str, str]:
    """Return the SHA-256 of each artifact of a task, in hex, by key."""
    return {entry["key"]: str(entry["sha256"]) for entry in record["artifacts"]}


def checked_copies(
    destination: Store, task: str, keys: Sequence[str], digests: Mapping[str, str] | None = None
) -> list[Path]:
    """Return local copies of artifacts of a task, whose content is what the task wrote.

    Args:
        destination: Root of the run.
        task: Name of the task.
        keys: Keys of the artifacts.
        digests: What `digests_of` returns for the record, if it has been read already.

    Raises:
        InvalidInputError: One is not. The task is forgotten, so that the next call does it again.

    Peak memory: a block of a file.
    """
    wanted = digests_of(read_record(destination, task)) if digests is None else digests
    copies = [*map_in_threads(lambda key: destination.checked_copy(key, wanted[key]), keys)]
    found = [copy for copy in copies if copy is not None]
    if len(found) < len(keys):
        forget_task(destination, task)
        raise InvalidInputError(
            f"{destination.uri_of(keys[copies.index(None)])} is damaged",
            found="other content",
            expected=f"what the task {task!r} wrote",
            remedy=f"Run {task!r} again, then this task: clear both in Airflow, or run the command again.",
        )
    return found


def is_scratch(key: str) -> bool:
    """Return whether a key lies below ``scratch/``, which ``publish`` removes."""
    return key.startswith(f"{layout.SCRATCH}/")
