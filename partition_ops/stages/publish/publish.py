"""Write ``manifest.json``, the last file of a run, and point ``latest.json`` at it."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import check_still_latest, point_at
from partition_ops.artifacts.manifest import read_partition_config, read_validation_report
from partition_ops.artifacts.tasks import (
    CONFIG_TASK,
    StageResult,
    check_in_step,
    conversion_tasks,
    read_record,
    stored_objects,
)
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.publish.gate import enforce_gate
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document
from partition_ops.system.progress import Progress

MANIFEST_VERSION = 1
SHOWN = 3  # artifacts in a message
COMPUTED_WITH = ("dgl", "numba", "numpy", "pyarrow", "pymetis", "torch")


def publish_run(
    config: PublishConfig,
    source: Store,
    destination: Store,
    *,
    latest: Store | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Write the manifest of a run whose stages are all done, and remove what was scratch.

    The manifest holds what came in (path, size, SHA-256), the options of every stage, the versions of
    everything that computed, and size and SHA-256 of every artifact. It holds no times: the same input and
    options give the same bytes. A folder without a manifest is not finished.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run.
        latest: Root of the graph, where ``latest.json`` is to point at this run; None for no pointer.
        progress: Not used, the stage takes no time.

    Returns:
        The number of artifacts and their bytes.

    Raises:
        UsageError: The gate is about old nodes, and the run has followed no other.
        InvalidInputError: A stage has not been done, or not since one before it was done again, or something
            that it wrote is gone.
        QualityGateError: The partitions are worse than ``config.gate`` allows.
        ConflictError: Another run of the graph was published since this one began, or has its lock.
    """
    began = time.monotonic()
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, CONFIG_TASK)  # says so where convert has not been done
    book = read_partition_config(destination, metadata.graph_name)
    manifest = _manifest(metadata.graph_name, source.uri, destination, book["num_parts"])
    enforce_gate(config.gate, destination)
    before = None if latest is None else check_still_latest(destination, latest)
    known = _is_there(destination, manifest)
    if not known:
        destination.write_json(layout.MANIFEST, manifest)
    if latest is not None:
        pointer = _pointer(config, metadata.graph_name, destination, book)
        point_at(latest, pointer, expected=before)
    destination.delete_prefix(f"{layout.SCRATCH}/")
    destination.delete_unfinished(layout.FOLDERS)
    sizes = [entry["size"] for entry in manifest["artifacts"]]
    where = destination.uri_of(layout.MANIFEST)
    counters = {"artifacts": len(sizes), "bytes": sum(sizes), "manifest": where}
    seconds = round(time.monotonic() - began, 3)
    return StageResult("publish", destination.uri, layout.MANIFEST, seconds, known, counters)


def renew_manifest(before: Mapping[str, Any], destination: Store) -> None:
    """Write the manifest of a published run again, after some of its tasks have been done again.

    Args:
        before: The manifest that it had.
        destination: Root of the run.
    """
    name = before["graph_name"]
    book = read_partition_config(destination, name)
    manifest = _manifest(name, before["input"]["uri"], destination, book["num_parts"])
    destination.write_json(layout.MANIFEST, manifest)


def _tasks(destination: Store, num_parts: int) -> list[str]:
    """Every task that must have left its record; not all engines need ``prepare``, and nobody ``probe``."""
    prepare, probe = (
        [name] if destination.exists(layout.record(name)) else [] for name in ("prepare", "probe")
    )
    config, *gathers = conversion_tasks(num_parts)
    before = ["validate", "schema", *prepare, "partition", "convert-plan"]
    return [*before, *gathers, config, "idmap", *probe, "quality"]


def _manifest(graph_name: str, input_uri: str, destination: Store, num_parts: int) -> dict[str, Any]:
    """The manifest, of tasks that fit together and artifacts that are there."""
    tasks = _tasks(destination, num_parts)
    for name in tasks:
        check_in_step(destination, name)
    records = [read_record(destination, name) for name in tasks]
    _check_same_input(input_uri, records)
    report = read_validation_report(destination)
    written = [entry for record in records for entry in record["artifacts"]]
    kept = [entry for entry in written if not entry["key"].startswith(f"{layout.SCRATCH}/")]
    manifest = {
        "version": MANIFEST_VERSION,
        "graph_name": graph_name,
        "input": {"uri": input_uri, "files": report["files"]},
        "options": {record["task"]: record["options"] for record in records},
        "versions": {"partition_ops": __version__, "python": platform.python_version(), **_versions()},
        "artifacts": sorted(kept, key=lambda entry: str(entry["key"])),
    }
    check_document(manifest, "manifest", where=destination.uri_of(layout.MANIFEST))
    _check_there(destination, kept)
    return manifest


def _check_same_input(input_uri: str, records: list[dict[str, Any]]) -> None:
    """Refuse to publish what stages have made of an input that changed between them."""
    seen: dict[str, tuple[StoredObject, str]] = {}
    for record in records:
        for entry in stored_objects(record):
            first, task = seen.setdefault(entry.key, (entry, record["task"]))
            if first != entry:
                raise InvalidInputError(
                    f"The input {input_uri} has changed while the job was at work",
                    found=f"{entry.key} was another file for {record['task']!r} than for {task!r}",
                    expected="files that stay as they are until the job has ended",
                    remedy="Call 'partition-ops run' again, or the stages from 'validate' on: what was made"
                    " of the old files is made again.",
                )


def _is_there(destination: Store, manifest: dict[str, Any]) -> bool:
    """Whether the manifest has been written already, to the byte: what is there may be broken."""
    there = destination.exists(layout.MANIFEST)
    return there and destination.read_bytes(layout.MANIFEST) == json_bytes(manifest)


def _check_there(destination: Store, kept: list[dict[str, Any]]) -> None:
    """Refuse to list what is not there, or not as it was written, as far as its size tells."""
    sizes = {entry.key: entry.size for entry in destination.list()}
    gone = sorted(entry["key"] for entry in kept if sizes.get(entry["key"]) != entry["size"])
    if gone:
        raise InvalidInputError(
            f"Artifacts of {destination.uri} are gone, or have another size than when they were written",
            found=some_of(gone, SHOWN),
            remedy="Do the stages again that wrote them, or everything with 'partition-ops run'.",
        )


def _versions() -> dict[str, str]:
    found = {}
    for name in COMPUTED_WITH:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _pointer(
    config: PublishConfig, graph_name: str, destination: Store, book: dict[str, Any]
) -> dict[str, Any]:
    return {
        "version": MANIFEST_VERSION,
        "graph_name": graph_name,
        "run_id": config.run_id,
        "run": destination.uri,
        "manifest": destination.uri_of(layout.MANIFEST),
        "partition_config": destination.uri_of(layout.partition_config(graph_name)),
        "num_parts": book["num_parts"],
    }
