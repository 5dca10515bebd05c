"""A task as a value, its status, and the records that finished tasks leave.

A stage builds a `Task` and runs it. A finished task leaves a record, ``records/<task>.json``, written after
its artifacts: what it depended on (options, input files, results of the tasks before it, version of this
package) and what it wrote. `Task.status` compares the record with what the task depends on now, and everybody
who needs to know whether a task is done asks it: stages, ``run``, the operators of the DAG, ``publish`` and
``--check-artifacts``.

The smallest stage is an example, `partition_ops.stages.schema.schema`::

    def write_schema(config: SchemaConfig, source: Store, destination: Store) -> StageResult:
        metadata = load_metadata(source, graph_name=config.graph_name)
        key = layout.schema_file(metadata.graph_name)

        def work(writer: ArtifactWriter) -> Counters:
            writer.write_json(key, schema_of(metadata))
            return {"node_types": len(metadata.node_types)}

        return Task("schema", destination, work, options=config.options(), outputs=[key]).run()
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.records import (
    Check,
    Record,
    damaged_artifacts,
    forget_task,
    is_scratch,
    read_record,
    read_records,
    stored_objects,
)
from partition_ops.artifacts.stage import stage_of_task
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.errors import InvalidInputError, clipped, some_of
from partition_ops.storage import Artifact, Store, StoredObject
from partition_ops.storage.store import NewObject, json_bytes
from partition_ops.system.memory import peak_memory
from partition_ops.system.memory_guard import at_work

if TYPE_CHECKING:
    import numpy.typing as npt

logger = logging.getLogger("partition_ops")

RECORD_VERSION = 2
SHOWN = 3  # files or artifacts in a reason
LONGEST_VALUE = 60  # characters of the value of an option in a reason
Counters = dict[str, Any]


@dataclass(frozen=True)
class StageResult:
    """The result of a task: small, JSON, fit for an XCom.

    Attributes:
        task: Name of the task, as in its record.
        output: URI of the run's root.
        record: Key of the record below the root.
        seconds: Time that the work took, also when it was done by an earlier run.
        skipped: Whether an earlier run had done the same already.
        counters: Figures of the task.
        reason: Why the task was done again; empty if it was skipped or done for the first time.
    """

    task: str
    output: str
    record: str
    seconds: float
    skipped: bool
    counters: Counters
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class ArtifactWriter:
    """Writes artifacts of a task that is at work, and collects them for its record."""

    destination: Store  # root of the run
    outputs: Sequence[str] = ("",)  # prefixes of the keys that the task may write
    artifacts: list[Artifact] = field(default_factory=list)  # artifacts written so far

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        """Yield a local file, which becomes an artifact when the context succeeds; see `Store.create`."""
        with self.destination.create(key) as new:
            yield new
        self.wrote(new.get_artifact())

    def wrote(self, artifact: Artifact) -> Artifact:
        """Collect an artifact that was written without this class.

        Raises:
            ValueError: The task does not declare it as an output.
        """
        if not artifact.key.startswith(tuple(self.outputs)):
            raise ValueError(f"{artifact.key} is not an output of the task: {', '.join(self.outputs)}")
        self.artifacts.append(artifact)
        return artifact

    def write_array(self, key: str, array: npt.NDArray[Any]) -> Artifact:
        return self.wrote(self.destination.write_array(key, array))

    def write_json(self, key: str, value: Any) -> Artifact:
        return self.wrote(self.destination.write_json(key, value))


Work = Callable[[ArtifactWriter], Counters]
"""Does the work of a task and returns the figures to record."""


def no_work(writer: ArtifactWriter) -> Counters:
    """Stand for the work of a task that is only built to ask for its status."""
    raise NotImplementedError("this task was only built to ask for its status")


class State(StrEnum):
    """The state of a task, as `Task.status` finds it.

    Attributes:
        DONE: The task was done with what it depends on now, and its artifacts are there.
        STALE: It was done with something else, or a task before it is not done any more.
        DAMAGED: An artifact is missing, or is not as the task wrote it.
        MISSING: It has not been done, or its record is broken.
    """

    DONE = "done"
    STALE = "stale"
    DAMAGED = "damaged"
    MISSING = "missing"


@dataclass(frozen=True)
class Status:
    """Whether a task is done, and why not."""

    state: State  # see `State`
    reason: str = ""  # why it is not done, as a clause for users; empty if it is done
    record: Record | None = None  # its record, if there is a readable one
    damaged: Sequence[str] = ()  # keys of artifacts that are missing or not as they were written

    @property
    def done(self) -> bool:
        return self.state is State.DONE


@dataclass(frozen=True)
class Task:
    """A unit of work that is done once, and again when something that it depends on has changed."""

    name: str  # name of the task: the stage, and the number of the partition or group if there are several
    destination: Store  # root of the run
    work: Work  # does the work and returns the figures to record
    options: Mapping[str, Any] = field(default_factory=dict)  # options that the result depends on; JSON
    inputs: Sequence[StoredObject] = ()  # input files that the result depends on
    # names of the tasks whose artifacts it reads. They must be done first; if one of them gets another
    # result, this task is stale
    after: Sequence[str] = ()
    # prefixes of the keys that it writes. If all lie below ``scratch/``, the manifest of the run stays when
    # the task is done again
    outputs: Sequence[str] = ("",)
    # returns further tasks, whose scratch it reads. They must be done before it begins; their results do not
    # matter once it is done
    requires: Callable[[], Iterable[Task]] = tuple

    @classmethod
    def recorded(cls, destination: Store, name: str) -> Task:
        """Return a task as its record describes it; see `from_record`.

        Raises:
            InvalidInputError: It has not been done, or its record is broken.
        """
        return cls.from_record(destination, read_record(destination, name))

    @classmethod
    def from_record(cls, destination: Store, record: Record) -> Task:
        """Return a task as its record describes it, to ask for its status; it cannot be run.

        Its options and inputs are those of the record, so it is only stale if a task before it has another
        result now, or if another version of this package did it.
        """

        def work(writer: ArtifactWriter) -> Counters:
            raise NotImplementedError(f"{record['task']} is known from its record only")

        return cls(
            record["task"],
            destination,
            work,
            options=record["options"],
            inputs=stored_objects(record),
            after=list(record.get("after", [])),
        )

    def status(self, *, check: Check = "artifacts", advance: Callable[[int], object] | None = None) -> Status:
        """Return whether the task is done, and if not, why.

        Args:
            check: How much is looked at. ``record``: whether the record is of what the task depends on now.
                ``artifacts``: also whether all artifacts are there with the size that they were written
                with; scratch on a local disk is read, because a crash may have lost its content.
                ``content``: also whether every artifact has the SHA-256 that it was written with.
            advance: Called with the size of each artifact once it is checked.

        Peak memory: 48 MiB for ``content``.
        """
        return self._status({}, check, advance)

    def run(self) -> StageResult:
        """Do the task, unless it is done; the record is written last.

        Raises:
            InvalidInputError: A task in ``after`` has not been done, or one that it requires is not done; or
                another version of this package finished the output.
        """
        records: dict[str, Record] = {}
        results = self._results(records)
        status = self._status(records)
        if status.done:
            logger.info("%s: nothing has changed since it was done, not done again", self.name)
            return self._skipped(status)
        key = layout.record(self.name)
        for required in self.requires():
            required.check_done(records)
        reason = status.reason if self.destination.exists(key) else ""
        if reason:
            logger.info("%s: done again, because %s", self.name, reason)
        if not all(map(is_scratch, self.outputs)):
            self._check_versions(records)
            self.destination.delete([layout.MANIFEST])  # the run is not finished any more
        forget_task(self.destination, self.name)
        began = time.monotonic()
        stage = stage_of_task(self.name)
        with (
            at_work(self.name, stage.remedy if stage else ""),
            self.destination.background_uploads() as store,
        ):
            writer = ArtifactWriter(store, self.outputs)
            counters = self.work(writer)
            seconds = round(time.monotonic() - began, 3)
            record = {
                "version": RECORD_VERSION,
                "partition_ops": __version__,
                "task": self.name,
                "options": dict(self.options),
                "inputs": [{"path": e.key, "size": e.size, "tag": e.tag} for e in self.inputs],
                "after": results,
                "seconds": seconds,
                "peak_memory_bytes": peak_memory(),
                "counters": counters,
                "artifacts": [one.to_json() for one in sorted(writer.artifacts, key=lambda a: a.key)],
            }
            store.write_last(key, json_bytes(record), after=map(layout.record, self.after))
        logger.info("%s: done in %.1f s", self.name, seconds)
        return StageResult(self.name, self.destination.uri, key, seconds, False, counters, reason)

    def find_result(self, *, check: Check = "artifacts") -> StageResult | None:
        """Return the result of the task if it is done, otherwise None; `check` is as for `status`."""
        status = self.status(check=check)
        return self._skipped(status) if status.done else None

    def check_done(self, records: dict[str, Record] | None = None) -> Record:
        """Return the task's record if it was done with what it depends on now; artifacts are not looked at.

        Args:
            records: Records by task that have been read already; those read here are added.

        Raises:
            InvalidInputError: It was not done, or something has changed since.
        """
        status = self._status({} if records is None else records, "record")
        if status.done and status.record is not None:
            return status.record
        read_record(self.destination, self.name)  # says so if it has not been done
        raise InvalidInputError(
            f"The task {self.name!r} of {self.destination.uri} is out of date",
            found=status.reason,
            remedy=f"Run {self.name!r} and the stages after it, or everything with 'partition-ops run'.",
        )

    def _check_versions(self, records: Mapping[str, Record]) -> None:
        """Reject a change to a finished output that another version wrote: it could not be published again.

        Raises:
            InvalidInputError: A task before this one was done by another version, and there is a manifest.
        """
        versions = {name: _version(records[name]) for name in self.after}
        other = next((name for name, version in versions.items() if version != __version__), None)
        if other is not None and self.destination.exists(layout.MANIFEST):
            raise InvalidInputError(
                f"{self.destination.uri} was written by version {versions[other]} of partition-ops, and this"
                f" is {__version__}: {self.name!r} cannot be done on top of it",
                found=f"{self.destination.uri_of(layout.record(other))} of version {versions[other]}",
                expected=f"records of version {__version__}",
                remedy="Run everything again with 'partition-ops run', into this output or another one.",
            )

    def _skipped(self, status: Status) -> StageResult:
        place = self.destination.uri, layout.record(self.name)
        record = status.record or {}
        return StageResult(self.name, *place, record["seconds"], True, record["counters"])

    def _results(self, records: dict[str, Record]) -> dict[str, str]:
        """Return the digest of what each task before this one wrote."""
        unread = [name for name in self.after if name not in records]
        records.update(zip(unread, read_records(self.destination, unread), strict=True))
        written = {name: json.dumps(records[name]["artifacts"], sort_keys=True) for name in self.after}
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in written.items()}

    def _status(
        self,
        records: dict[str, Record],
        check: Check = "artifacts",
        advance: Callable[[int], object] | None = None,
    ) -> Status:
        """Return the status; each record is read once, and added to ``records``."""
        try:
            record = records.get(self.name) or read_record(self.destination, self.name)
        except InvalidInputError as error:
            return Status(State.MISSING, error.problem)
        records[self.name] = record
        try:
            difference = self._difference(record, self._results(records))
        except InvalidInputError as error:  # of a task before this one
            difference = error.problem
        if check == "record" or (difference and check != "content"):
            damaged = []
        else:
            damaged = damaged_artifacts(self.destination, record["artifacts"], check, advance)
        if difference:
            return Status(State.STALE, difference, record, damaged)
        if damaged:
            verb = "is" if len(damaged) == 1 else "are"
            reason = f"{some_of(damaged, SHOWN)} {verb} missing, or not as it was written"
            return Status(State.DAMAGED, reason, record, damaged)
        return Status(State.DONE, record=record)

    def _difference(self, record: Record, results: Mapping[str, str]) -> str | None:
        """Return what has changed since the task was done, or None."""
        written_by = _version(record)
        if written_by != __version__:
            return f"it was done by version {written_by} of partition-ops, and this is {__version__}"
        return (
            changed_option(record["options"], self.options)
            or _changed_inputs(stored_objects(record), self.inputs)
            or _changed_results(record["after"], results)
            or self._moved_output(record)
        )

    def _moved_output(self, record: Record) -> str | None:
        """Return that an artifact would have another key now, such as one with the name of the graph."""
        moved = [one["key"] for one in record["artifacts"] if not one["key"].startswith(tuple(self.outputs))]
        return f"it wrote {moved[0]}, which has another name now" if moved else None


def _version(record: Record) -> str:
    version: str = record.get("partition_ops", "0.1.0")  # which did not record its version
    return version


def changed_option(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first difference between recorded and present options as a clause, or None."""
    now = json.loads(json.dumps(dict(now)))  # as the record has them: lists instead of tuples
    for name in [*now, *(name for name in before if name not in now)]:
        if name not in before:
            return f"its option {name!r} was not set and is {_short(now[name])} now"
        if name not in now:
            return f"its option {name!r} was {_short(before[name])} and is not set now"
        if before[name] != now[name]:
            then, new = _short(before[name]), _short(now[name])
            return f"its option {name!r} {f'was {then} and is {new} now' if then != new else 'has changed'}"
    return None


def _changed_inputs(before: Sequence[StoredObject], now: Sequence[StoredObject]) -> str | None:
    then, new = ({entry.key: entry for entry in entries} for entries in (before, now))
    changes = {
        "changed": [key for key in new if key in then and then[key] != new[key]],
        "added": [key for key in new if key not in then],
        "removed": [key for key in then if key not in new],
    }
    said = [f"{some_of(keys, SHOWN)} {what}" for what, keys in changes.items() if keys]
    return f"the input is another one: {'; '.join(said)}" if said else None


def _changed_results(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    for name in now:
        if name not in before:
            return f"it did not read the result of the task {name!r}"
        if before[name] != now[name]:
            return f"the task {name!r} before it has another result"
    gone = [name for name in before if name not in now]
    return f"it read the result of the task {gone[0]!r}" if gone else None


def _short(value: Any) -> str:
    return clipped(repr(value) if isinstance(value, str) else json.dumps(value), LONGEST_VALUE)


def input_objects(source: Store, metadata: GraphMetadata) -> list[StoredObject]:
    """Return the identity (size and tag) of the metadata and of every data file of a graph.

    Raises:
        InvalidInputError: Files are missing; the message names up to ten.
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
