"""What every task of every stage has in common: it is skipped when it is done already, and recorded.

A task's record, ``records/<task>.json``, is written after the artifacts of the task. It holds a
fingerprint of all that the result depends on: the options, the version of this package, the identity
of the input files and the digests of the artifacts that the task reads. A task whose record has the
same fingerprint, and whose artifacts are still there, is not done again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.errors import InvalidInputError, UsageError, some_of
from partition_ops.storage import Artifact, Store, StoredObject
from partition_ops.storage.store import REQUESTS, sha256_of
from partition_ops.system.json_documents import check_document, explain_damage
from partition_ops.system.memory import peak_memory
from partition_ops.system.parallel import map_in_threads

logger = logging.getLogger("partition_ops")

RECORD_VERSION = 1
PART_TASK = "convert-part"  # then the number of the partition
CONFIG_TASK = "convert-config"
Counters = dict[str, Any]


@dataclass(frozen=True)
class StageResult:
    """What a task gives back: small, JSON, fit for an XCom.

    Attributes:
        task: Name of the task, as in its record.
        output: URI of the run's root.
        record: Key of the record below the root.
        seconds: Time that the work took, also when it was done by an earlier run.
        skipped: Whether an earlier run had done the same already.
        counters: Figures of the task.
    """

    task: str
    output: str
    record: str
    seconds: float
    skipped: bool
    counters: Counters

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Task:
    """A task at work: it collects what it wrote.

    Attributes:
        destination: Root of the run.
        artifacts: What has been written so far.
    """

    destination: Store
    artifacts: list[Artifact] = field(default_factory=list)

    def wrote(self, artifact: Artifact) -> Artifact:
        self.artifacts.append(artifact)
        return artifact

    def write_array(self, key: str, array: npt.NDArray[Any]) -> Artifact:
        return self.wrote(self.destination.write_array(key, array))

    def write_json(self, key: str, value: Any) -> Artifact:
        return self.wrote(self.destination.write_json(key, value))


def run_task(
    name: str,
    destination: Store,
    *,
    options: Mapping[str, Any],
    inputs: Iterable[StoredObject] = (),
    after: Iterable[str] = (),
    work: Callable[[Task], Counters],
    lasting: bool = True,
) -> StageResult:
    """Do a task, or find it done; the record is written last.

    Args:
        name: Name of the task: the stage, with the partition behind it where there is one for each.
        destination: Root of the run.
        options: The options that the result depends on.
        inputs: The input files that the result depends on.
        after: Names of the tasks whose artifacts this one reads; they must have been done.
        work: Does the work and gives back the figures to record.
        lasting: Whether it leaves more than scratch, so that a manifest does not hold any more.

    Raises:
        InvalidInputError: A task named in ``after`` has left no record.
    """
    inputs, after = list(inputs), list(after)
    fingerprint = _fingerprint(name, options, inputs, _read_records(destination, after))
    done = _skipped(destination, name, fingerprint)
    if done is not None:
        return done
    if lasting:
        destination.delete([layout.MANIFEST])  # what follows is not finished any more
    forget_task(destination, name)
    began = time.monotonic()
    with destination.deferring() as store:
        task = Task(store)
        counters = work(task)
    seconds = round(time.monotonic() - began, 3)
    record = {
        "version": RECORD_VERSION,
        "task": name,
        "fingerprint": fingerprint,
        "options": dict(options),
        "inputs": [{"path": entry.key, "size": entry.size, "tag": entry.tag} for entry in inputs],
        "after": after,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
        "counters": counters,
        "artifacts": [artifact.to_json() for artifact in sorted(task.artifacts, key=lambda a: a.key)],
    }
    destination.write_json(layout.record(name), record)
    logger.info("%s: done in %.1f s", name, seconds)
    return StageResult(name, destination.uri, layout.record(name), seconds, False, counters)


def find_done(
    name: str,
    destination: Store,
    *,
    options: Mapping[str, Any],
    inputs: Iterable[StoredObject] = (),
    after: Iterable[str] = (),
    scratch: bool = True,
) -> StageResult | None:
    """The result of a task that `run_task` would find done; None where it would do it.

    Args:
        name: As for `run_task`, with the next four.
        destination: Root of the run.
        options: The options.
        inputs: The input files.
        after: Names of the tasks before it.
        scratch: Whether what it left below ``scratch/`` is needed too.

    Raises:
        InvalidInputError: A task named in ``after`` has left no record.
    """
    fingerprint = _fingerprint(name, options, inputs, _read_records(destination, after))
    return _skipped(destination, name, fingerprint, scratch=scratch)


def _skipped(destination: Store, name: str, fingerprint: str, *, scratch: bool = True) -> StageResult | None:
    done = _finished(destination, name, fingerprint, scratch=scratch)
    if done is None:
        return None
    logger.info("%s: nothing has changed since it was done, not done again", name)
    return StageResult(name, destination.uri, layout.record(name), done["seconds"], True, done["counters"])


def check_given(destination: Store, tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to read what tasks have left, unless they were given what there is now.

    Args:
        destination: Root of the run.
        tasks: For each task its ``options``, ``inputs`` and ``after``, as for `run_task`.

    Raises:
        InvalidInputError: One has not been done, or was given something else.
    """
    names = list(dict.fromkeys([*tasks, *(name for given in tasks.values() for name in given["after"])]))
    records = dict(zip(names, _read_records(destination, names), strict=True))
    for name, given in tasks.items():
        before = [records[other] for other in given["after"]]
        if _fingerprint(name, given["options"], given["inputs"], before) != records[name]["fingerprint"]:
            raise _out_of_step(destination, name, "another input, other options, another", given["after"])


def read_record(destination: Store, name: str) -> dict[str, Any]:
    """The record of a finished task.

    Raises:
        InvalidInputError: The task has not been done, or its record is broken.
    """
    key = layout.record(name)
    try:
        data = destination.read_bytes(key)
    except InvalidInputError:
        if destination.exists(key):
            raise
        raise InvalidInputError(
            f"The stage {name!r} has not been done in {destination.uri}",
            remedy="Run that stage first, with the same --output, or everything with 'partition-ops run'.",
        ) from None
    where = destination.uri_of(key)
    with explain_damage(
        where,
        f"{where} is broken, so that the stage {name!r} counts as not done",
        expected="the record that the stage has left",
        remedy="Do that stage again, with the same --output, or everything with 'partition-ops run'.",
    ):
        record: dict[str, Any] = destination.parse_json(key, data)
        check_document(record, "record", where=where)
    return record


def _read_records(destination: Store, names: Iterable[str]) -> list[dict[str, Any]]:
    return [*map_in_threads(lambda name: read_record(destination, name), names, workers=REQUESTS)]


def forget_task(destination: Store, name: str) -> None:
    """Remove what an earlier run of a task wrote, its folders if they are empty then, and its record.

    The manifest goes first, unless the task has left scratch only, which no manifest lists.
    """
    key = layout.record(name)
    if not destination.exists(key):
        return
    try:
        written = [entry["key"] for entry in read_record(destination, name)["artifacts"]]
    except InvalidInputError:
        written = []
    if not written or not all(map(_is_scratch, written)):
        destination.delete([layout.MANIFEST])
    destination.delete([*written, key])
    for folder in {name.rpartition("/")[0] for name in written} - {""}:  # nobody else's, unlike the records'
        destination.delete_empty(folder)


def still_done(destination: Store, name: str, after: Iterable[str]) -> bool:
    """Whether a task, with whatever options, has been done after others as they are now.

    Raises:
        InvalidInputError: A task named in ``after`` has left no record.
    """
    try:
        options = read_record(destination, name)["options"]
    except InvalidInputError:
        return False
    before = _read_records(destination, after)
    return _finished(destination, name, _fingerprint(name, options, (), before)) is not None


def check_in_step(destination: Store, name: str) -> None:
    """Refuse a task that was done before something that it reads was done again, with another result.

    Raises:
        InvalidInputError: So it is, or a record is missing.
    """
    record = read_record(destination, name)
    if "after" not in record:  # of an older version
        return
    before = _read_records(destination, record["after"])
    if _fingerprint(name, record["options"], stored_objects(record), before) != record["fingerprint"]:
        raise _out_of_step(destination, name, "another", record["after"])


def _out_of_step(destination: Store, name: str, found: str, after: Iterable[str]) -> InvalidInputError:
    """The error about a task that was given something else than there is now."""
    stages = ", ".join(dict.fromkeys(other.rstrip("0123456789") for other in after))  # partitions as one
    return InvalidInputError(
        f"The stage {name!r} of {destination.uri} is not of what is there now",
        found=f"{found} result of a stage before it ({stages}), or another version of this package",
        remedy=f"Do {name!r} again and what follows it, or everything with 'partition-ops run'.",
    )


def stored_objects(record: Mapping[str, Any]) -> list[StoredObject]:
    """The input files of a task as they were when it began."""
    return [StoredObject(entry["path"], entry["size"], entry["tag"]) for entry in record["inputs"]]


def conversion_tasks(num_parts: int) -> list[str]:
    """The tasks that what reads the partitions comes after."""
    return [CONFIG_TASK, *map(part_task, range(num_parts))]


def part_task(part: int) -> str:
    """The task that builds a partition."""
    return f"{PART_TASK}{part}"


def check_apart(source: Store, destination: Store, metadata: GraphMetadata) -> None:
    """Refuse an output that would write over its own input.

    Raises:
        UsageError: Both have the same root, or a file of the input lies where a run writes or removes.
    """
    remedy = "Give the output a root of its own."
    if source.place == destination.place:
        raise UsageError("The input and the output are the same", found=source.uri, remedy=remedy)
    root = f"{destination.place}/"
    for key in (METADATA, *metadata.files()):
        place = f"{source.place}/{key}"
        if place.startswith(root) and place.removeprefix(root).split("/")[0] in layout.OURS:
            raise UsageError(
                "A file of the input lies where the output is written",
                found=source.uri_of(key),
                remedy=remedy,
            )


def input_objects(source: Store, metadata: GraphMetadata) -> list[StoredObject]:
    """Identity of the metadata and of every data file of a graph.

    Raises:
        InvalidInputError: A file is missing; all missing ones are named, up to ten.
    """
    keys = (METADATA, *metadata.files())
    found = source.stat_all(keys)
    missing = [key for key, entry in zip(keys, found, strict=True) if entry is None]
    if missing:
        raise InvalidInputError(
            f"{len(missing)} of {len(keys)} files that metadata.json names are missing below {source.uri}",
            found=f"no {some_of(missing)}",
            remedy="Upload them, or correct the paths in metadata.json; they are relative to it.",
        )
    return [entry for entry in found if entry is not None]


def _fingerprint(
    name: str,
    options: Mapping[str, Any],
    inputs: Iterable[StoredObject],
    records: Iterable[Mapping[str, Any]],
) -> str:
    parts = [
        name,
        __version__,
        RECORD_VERSION,
        dict(options),
        [[entry.key, entry.size, entry.tag] for entry in inputs],
        [record["artifacts"] for record in records],
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _finished(
    destination: Store, name: str, fingerprint: str, *, scratch: bool = True
) -> dict[str, Any] | None:
    """The record of the task if it was done with this fingerprint and its artifacts are there.

    Without ``scratch``, those are enough that are no scratch.
    """
    if not destination.exists(layout.record(name)):
        return None
    try:
        record = read_record(destination, name)
    except InvalidInputError:
        return None
    if record["fingerprint"] != fingerprint:
        return None
    written = [entry for entry in record["artifacts"] if scratch or not _is_scratch(entry["key"])]
    whole = all_there(destination, written) and _scratch_as_written(destination, written)
    return record if whole else None


def all_there(destination: Store, listed: list[dict[str, Any]]) -> bool:
    """Whether all artifacts that a record or a manifest lists are there, with the sizes that it has."""
    found = destination.stat_all(entry["key"] for entry in listed)
    return [entry and entry.size for entry in found] == [entry["size"] for entry in listed]


def _scratch_as_written(destination: Store, written: list[dict[str, Any]]) -> bool:
    """Whether scratch objects on the local disk are what the record says: nobody waited for the disk."""
    scratch = [entry for entry in written if _is_scratch(entry["key"])]
    here = (entry for entry in scratch if destination.is_local(entry["key"]))
    return all(sha256_of(destination.local_copy(entry["key"])) == entry["sha256"] for entry in here)


def _is_scratch(key: str) -> bool:
    return key.startswith(f"{layout.SCRATCH}/")
