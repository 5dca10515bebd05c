"""Find what has changed in the input of a finished run, and in the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import read_record, stored_objects
from partition_ops.artifacts.tasks import input_objects
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.jobs.open_graph import Opener, graph_made_for, ingestion_of
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.uris import split_uri

SHOWN = 3
IGNORED_OPTIONS = {"graph_name", "data_docs"}
"""Options that do not affect the partitions, or only identify the graph."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes since a run."""

    added: list[str]  # paths of new input files
    changed: list[str]  # paths of input files with another content
    removed: list[str]  # paths of input files that no longer exist
    unchanged: int  # number of the other input files
    options: list[str]  # options that differ, as ``stage.option: before -> now``, and types of ``graph.yaml``
    compared: int = 0  # number of files that were read to compare their checksums
    # tables of which nothing tells whether they have changed: queries on servers
    unknown: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.options or self.unknown)

    def __str__(self) -> str:
        if not self.any:
            return f"none of {self.unchanged} input files has changed"
        lists = {"added": self.added, "changed": self.changed, "removed": self.removed}
        said = [f"{len(found)} {what} ({some_of(found, SHOWN)})" for what, found in lists.items() if found]
        files = [f"input files: {', '.join(said)}"] if said else []
        unknown = [f"nothing tells whether {table} has changed" for table in self.unknown]
        return "; ".join([*files, *unknown, *(f"option {option}" for option in self.options)])

    def to_json(self) -> dict[str, Any]:
        return {"unchanged_since": not self.any, **asdict(self)}


def find_changes(source: Store, run: Store, *, wanted: RunConfig | None = None) -> Changes:
    """Compare the input of a finished run with the input now.

    A file with the same size and tag (the ETag on S3, size and times of the last changes on a disk) counts as
    unchanged. For other files of the same size, the SHA-256 is compared with the one in the manifest. Memory:
    the list of files.

    Args:
        source: Root of the input graph.
        run: Root of the finished run.
        wanted: Options of the next run, to compare too.

    Raises:
        InvalidInputError: The run is not finished, or the graph's metadata or a file of it is missing.
    """
    manifest = read_manifest(run)
    before = {entry["path"]: entry for entry in manifest["input"]["files"]}
    name = wanted.graph_name if wanted else manifest["graph_name"]
    now = {entry.key: entry for entry in input_objects(source, load_metadata(source, graph_name=name))}
    tags: dict[str, str] = {}  # when the files were validated; old versions did not record them
    if manifest["input"]["uri"] == source.uri:
        with suppress(InvalidInputError):  # the record is not an artifact, and may have been removed
            tags = {entry.key: entry.tag for entry in stored_objects(read_record(run, "validate"))}
    changed, compared = [], 0
    for path in sorted(before.keys() & now.keys()):
        if now[path].size != before[path]["size"]:
            changed.append(path)
        elif tags.get(path) != now[path].tag:
            compared += 1
            if source.checked_copy(path, before[path]["sha256"]) is None:
                changed.append(path)
    return Changes(
        added=sorted(now.keys() - before.keys()),
        changed=changed,
        removed=sorted(before.keys() - now.keys()),
        unchanged=len(before.keys() & now.keys()) - len(changed),
        options=_other_options(manifest["options"], wanted) if wanted else [],
        compared=compared,
    )


def find_table_changes(uri: str, run: Store, opened: Opener, *, wanted: RunConfig | None = None) -> Changes:
    """Compare a ``graph.yaml`` or ``graph.bin`` and the files of its tables with those that a run ingested.

    A file with the same size and tag (the ETag on S3, times of the last changes on a disk) counts as
    unchanged; nothing else of tables is read. Memory: the list of files.

    Args:
        uri: The file.
        run: Root of the finished run. It has ingested the file itself, or read a graph that was made of it.
        opened: Opens the folder of the file, and those of tables elsewhere.
        wanted: Options of the next run, to compare too.

    Raises:
        InvalidInputError: The run is not finished, or was made of another kind of input; a table is missing;
            or ``graph.yaml`` is wrong.
    """
    manifest = read_manifest(run)
    other = InvalidInputError(
        f"{run.uri} was not made of such a file, or the graph that it read has been replaced",
        found=f"the input {manifest['input']['uri']}",
        expected=f"an input that was ingested from {uri}",
        remedy=f"Compare the folder of the graph: 'partition-ops changes DIR {run.uri}'.",
    )
    graph = graph_made_for(run, opened)
    if graph is None:
        raise other
    record, (folder, name) = read_record(graph, "ingest"), split_uri(uri)
    given = wanted.graph_name if wanted else None
    with opened(folder) as source:
        task = ingestion_of(IngestConfig(graph_name=given), source, name, graph, opened)
        if ("graph" in record["options"]) != ("graph" in task.options):
            raise other
        before, now = (
            {entry.key.removeprefix(f"{source.uri}/"): entry for entry in entries}
            for entries in (stored_objects(record), task.inputs)
        )
    then, graph_file = record["options"].get("graph", {}), task.options.get("graph", {})
    same = [path for path in before.keys() & now.keys() if _same_file(before[path], now[path])]
    options = _other_options(manifest["options"], wanted) if wanted else []
    reverse = record["options"].get("reverse_edges", False)
    if wanted is not None and wanted.reverse_edges != reverse:
        options.append(f"ingest.reverse_edges: {reverse} -> {wanted.reverse_edges}")
    return Changes(
        added=sorted(now.keys() - before.keys()),
        changed=sorted(before.keys() & now.keys() - {*same}),
        removed=sorted(before.keys() - now.keys()),
        unchanged=len(same),
        options=[*(f"{name}: {one}" for one in _other_types(then, graph_file)), *options],
        unknown=types_on_servers(graph_file),
    )


def _same_file(before: StoredObject, now: StoredObject) -> bool:
    return (before.size, before.tag) == (now.size, now.tag)


def _other_types(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between two files ``graph.yaml``: types, or other settings."""
    for part in sorted({*before, *now}):
        then, new = before.get(part), now.get(part)
        if part not in ("nodes", "edges") or then is None or new is None:
            if then != new:
                yield f"{part} has changed"
            continue
        for name in dict.fromkeys([*then, *new]):
            if name not in then or name not in new or then[name] != new[name]:
                what = "is new" if name not in then else "has changed" if name in new else "is gone"
                yield f"{part} {name!r} {what}"


def types_on_servers(graph_file: Mapping[str, Any]) -> list[str]:
    """Return the types of a ``graph.yaml`` whose rows come from servers, in words."""
    return [
        f"the query of {part} {name!r}"
        for part in ("nodes", "edges")
        for name, spec in graph_file.get(part, {}).items()
        if isinstance(table := (spec or {}).get("table"), Mapping) and "connection" in table
    ]


def _other_options(before: Mapping[str, Mapping[str, Any]], wanted: RunConfig) -> list[str]:
    """Return the options that differ; options that the run did not have are ignored."""
    differ = []
    for stage in filter(wanted.takes_options_of, wanted.stages()):
        then = before.get(stage.first_record, {})
        for name, value in wanted.of(stage.config).options().items():
            if name in then and name not in IGNORED_OPTIONS and _plain(then[name]) != _plain(value):
                differ.append(f"{stage.name}.{name}: {_plain(then[name])} -> {_plain(value)}")
    return differ


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists instead of tuples."""
    return list(value) if isinstance(value, tuple) else value
