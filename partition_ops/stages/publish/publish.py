"""Write ``manifest.json``, the last file of a run, and point ``latest.json`` at it."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.latest import check_still_latest, point_at, read_beginning, read_pointer
from partition_ops.artifacts.manifest import read_manifest, read_validation_report
from partition_ops.artifacts.records import (
    Record,
    config_task,
    read_record,
    read_records,
    remove_leftovers,
    stored_objects,
)
from partition_ops.artifacts.stage import LAST, job_stages, written_folders
from partition_ops.artifacts.tasks import StageResult, State, Status, Task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.formats.format import main_config
from partition_ops.stages.publish.gate import enforce_gate
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.run_index import add_run
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes, sha256_of_object
from partition_ops.system.json_documents import check_document
from partition_ops.system.progress import Progress

MANIFEST_VERSION = 1
SHOWN = 3  # artifacts in a message
COMPUTED_WITH = ("mtkahypar", "numba", "numpy", "pyarrow", "pymetis")
Manifest = dict[str, Any]


def publish_run(
    config: PublishConfig,
    source: Store,
    destination: Store,
    *,
    latest: Store | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Write the manifest of a run whose stages are all done, and remove its scratch.

    The manifest holds the input (path, size, SHA-256), the options of every stage, the versions of the
    packages that computed the output, and the size and SHA-256 of every artifact. It holds no times: the same
    input and options give the same bytes. A folder without a manifest is not finished.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run.
        latest: Root of the graph, whose ``latest.json`` is to point at this run; None for no pointer.
        progress: Not used, the stage takes no time.

    Returns:
        The number of artifacts and their bytes.

    Raises:
        UsageError: The gate limits moved nodes, and the run follows no other.
        InvalidInputError: A stage has not been done, or a stage before it was done again with another
            result, or one of its artifacts is missing.
        QualityGateError: The partitions are worse than ``config.gate`` allows.
        ConflictError: Another run of the graph was published since this one began, or holds its lock.
    """
    return PublishTask(config, source, destination, latest).run()


@dataclass(frozen=True)
class PublishTask:
    """The task ``publish``. Its record is the manifest, because the manifest is written last."""

    config: PublishConfig  # options
    source: Store  # root of the input graph
    destination: Store  # root of the run
    # root of the graph, whose ``latest.json`` is to point at this run; None for no pointer
    latest: Store | None = None
    name: ClassVar[str] = "publish"

    def status(self) -> Status:
        """Return whether the run is published as it is now, and if not, why.

        It is if the manifest lists exactly what the records of all tasks list, none of these tasks is stale,
        and all artifacts are there with their sizes.
        """
        try:
            manifest = read_manifest(self.destination)
        except InvalidInputError as error:
            return Status(State.MISSING, error.problem)
        written_by = manifest["versions"]["partition_ops"]
        if written_by != __version__:
            return Status(State.STALE, f"version {written_by} published it, and this is {__version__}")
        try:
            expected = self._manifest()
        except InvalidInputError as error:
            return Status(State.STALE, error.problem)
        if manifest != expected:
            return Status(State.STALE, "the manifest does not list the results of its tasks")
        return Status(State.DONE)

    def run(self) -> StageResult:
        """Publish the run; see `publish_run`."""
        began = time.monotonic()
        manifest = self._manifest()
        enforce_gate(self.config.gate, self.destination)
        before = None if self.latest is None else check_still_latest(self.destination, self.latest)
        known = _is_there(self.destination, manifest)
        if not known:
            self.destination.delete([layout.MANIFEST])
            self.destination.write_first(layout.MANIFEST, json_bytes(manifest))
        if self.latest is not None:
            self._point(self.latest, manifest, before)
        remove_leftovers(self.destination, layout.SCRATCH)
        self.destination.delete_unfinished(written_folders())
        sizes = [entry["size"] for entry in manifest["artifacts"]]
        where = self.destination.uri_of(layout.MANIFEST)
        counters = {"artifacts": len(sizes), "bytes": sum(sizes), "manifest": where}
        seconds = round(time.monotonic() - began, 3)
        return StageResult(self.name, self.destination.uri, layout.MANIFEST, seconds, known, counters)

    def _point(self, latest: Store, manifest: Manifest, before: bytes | None) -> None:
        own, latest.fence = latest.fence, self.destination.fence
        try:
            point_at(latest, _pointer(manifest, self.destination, self.config.run_id), expected=before)
            add_run(latest, self.destination)
        finally:
            latest.fence = own

    def _manifest(self) -> Manifest:
        metadata = load_metadata(self.source, graph_name=self.config.graph_name)
        return expected_manifest(metadata.graph_name, self.source.uri, self.destination)


def publish_again(root: Store, name: str) -> dict[str, Any]:
    """Point ``latest.json`` at a finished run that was published before.

    The caller holds the lock of the graph.

    Args:
        root: Root of the graph, with ``runs/``.
        name: Name of the folder of the run below ``runs/``.

    Returns:
        The content of ``latest.json``.

    Raises:
        InvalidInputError: There is no such run, it is not finished, or an artifact is missing or has another
            size.
        ConflictError: ``latest.json`` was written meanwhile.
    """
    before = read_pointer(root)
    run = root.child(f"{layout.RUNS}/{name}")
    manifest = read_manifest(run)
    _check_there(run, manifest["artifacts"])
    beginning = read_beginning(run)
    pointer = _pointer(manifest, run, str(beginning["holder"].get("run_id", name)) if beginning else None)
    point_at(root, pointer, expected=before)
    add_run(root, run)
    return pointer


def _pointer(manifest: Manifest, run: Store, run_id: str | None) -> dict[str, Any]:
    book = read_book(run, manifest["graph_name"])
    return {
        "version": MANIFEST_VERSION,
        "graph_name": book.graph_name,
        "run_id": run_id,
        "run": run.uri,
        "manifest": run.uri_of(layout.MANIFEST),
        "partition_config": run.uri_of(main_config(book)),
        "num_parts": book.num_parts,
    }


def expected_manifest(graph_name: str, input_uri: str, destination: Store) -> Manifest:
    """Return the manifest that the tasks done in a run make up; nothing is written.

    Args:
        graph_name: Name of the graph.
        input_uri: Root of the input graph.
        destination: Root of the run.

    Raises:
        InvalidInputError: A task has not been done or is stale, the input changed between two tasks, or an
            artifact is missing or has another size than when it was written.
    """
    read_record(destination, config_task(destination))  # says so if convert has not been done
    tasks = _tasks(destination, read_book(destination, graph_name).num_parts)

    records = read_records(destination, tasks)
    by_name = dict(zip(tasks, records, strict=True))
    for record in records:
        Task.from_record(destination, record).check_done(by_name)
    _check_same_input(input_uri, records)
    _check_ingested(input_uri, destination, records)
    written = [entry for record in records for entry in record["artifacts"]]
    kept = [entry for entry in written if not entry["key"].startswith(f"{layout.SCRATCH}/")]
    manifest = {
        "version": MANIFEST_VERSION,
        "graph_name": graph_name,
        "input": _input(input_uri, destination),
        "options": {record["task"]: record["options"] for record in records},
        "versions": {"partition_ops": __version__, "python": platform.python_version(), **_versions()},
        "artifacts": sorted(kept, key=lambda entry: str(entry["key"])),
    }
    check_document(manifest, "manifest", where=destination.uri_of(layout.MANIFEST))
    _check_there(destination, kept)
    return manifest


def _tasks(destination: Store, num_parts: int) -> list[str]:
    """Return every task that must have left its record; optional stages may have left none."""
    found: list[str] = []
    for stage in job_stages():
        names: list[str] = []
        for task in stage.all_tasks:
            if not task.scratch and stage.name != LAST:
                names += [f"{task.name}{part}" for part in range(num_parts)] if task.each else [task.name]
        if stage.instead and destination.exists(layout.record(stage.instead)):
            found = [stage.instead]
        elif not stage.optional or destination.exists(layout.record(names[0])):
            found += names
    return found


def _input(uri: str, destination: Store) -> dict[str, Any]:
    """Return URI and files of the input: the graph, or the text that `convert-partition` read."""
    if config_task(destination) != layout.TEXT_TASK:
        return {"uri": uri, "files": read_validation_report(destination)["files"]}
    document = read_document(destination, layout.CONVERTED_TEXT, "converted_text")
    return {"uri": document["uri"], "files": document["files"]}


def _check_same_input(input_uri: str, records: list[Record]) -> None:
    """Reject results of an input that changed between the stages.

    Raises:
        InvalidInputError: It did.
    """
    seen: dict[str, tuple[StoredObject, str]] = {}
    for record in records:
        for entry in stored_objects(record):
            first, task = seen.setdefault(entry.key, (entry, record["task"]))
            if first != entry:
                raise InvalidInputError(
                    f"The input {input_uri} has changed while the job was running",
                    found=f"{entry.key} was another file for {record['task']!r} than for {task!r}",
                    expected="files that stay as they are until the job has ended",
                    remedy="Run 'partition-ops run' again, or the stages from 'validate' on: they redo what"
                    " was made of the old files.",
                )


def _check_ingested(input_uri: str, destination: Store, records: list[Record]) -> None:
    """Reject results of tables that were ingested into the run again since, with other rows.

    Raises:
        InvalidInputError: They were.
    """
    ingested = destination.child(layout.INGEST)
    if input_uri != ingested.uri:
        return
    known = {entry.key: entry for record in records for entry in stored_objects(record)}
    known = {key: entry for key, entry in known.items() if key != layout.QUALITY_HISTORY}
    listed = {one["path"]: one["sha256"] for one in read_validation_report(destination)["files"]}

    def differs(then: StoredObject, now: StoredObject | None) -> bool:
        """A copy of the run has other times of files, and the same content."""
        if now is None or now.size != then.size:
            return True
        if now == then:
            return False
        expected: str = listed.get(now.key, "")
        return sha256_of_object(ingested, now.key, now.size, expected) != expected

    there = ingested.stat_all(list(known))
    changed = [key for key, now in zip(known, there, strict=True) if differs(known[key], now)]
    if changed:
        raise InvalidInputError(
            f"{input_uri} was made anew from tables that have changed",
            found=f"other files than those that the stages have read: {some_of(changed, SHOWN)}",
            expected="tables that stay as they are until the job has ended",
            remedy="Run 'partition-ops run' again, or the stages from 'validate' on.",
        )


def _is_there(destination: Store, manifest: Manifest) -> bool:
    """Return whether the same manifest is there, to the byte: what is there may be broken."""
    there = destination.exists(layout.MANIFEST)
    return there and destination.read_bytes(layout.MANIFEST) == json_bytes(manifest)


def _check_there(destination: Store, kept: list[dict[str, Any]]) -> None:
    """Reject artifacts that are missing or have another size; one listing answers for all.

    Raises:
        InvalidInputError: There are some.
    """
    sizes = {entry.key: entry.size for entry in destination.list()}
    gone = sorted(entry["key"] for entry in kept if sizes.get(entry["key"]) != entry["size"])
    if gone:
        raise InvalidInputError(
            f"Artifacts of {destination.uri} are missing, or have another size than when they were written",
            found=some_of(gone, SHOWN),
            remedy="Run the stages that write them again, or everything with 'partition-ops run'.",
        )


def _versions() -> dict[str, str]:
    found = {}
    for name in COMPUTED_WITH:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
