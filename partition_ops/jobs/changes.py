"""Find what has changed in the input of a finished run, and in the options."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import read_record, stored_objects
from partition_ops.artifacts.tasks import input_objects
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.jobs.options import RunConfig
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of

SHOWN = 3
IGNORED_OPTIONS = {"graph_name", "data_docs", "memory"}
"""Options that do not affect the partitions, or only identify the graph."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes since a run.

    Attributes:
        added: Paths of new input files.
        changed: Paths of input files with another content.
        removed: Paths of input files that no longer exist.
        unchanged: Number of the other input files.
        options: Options that differ, as ``stage.option: before -> now``.
        compared: Number of files that were read to compare their checksums.
    """

    added: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: int
    options: list[str]
    compared: int

    @property
    def any(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.options)

    def __str__(self) -> str:
        if not self.any:
            return f"none of {self.unchanged} input files has changed"
        lists = {"added": self.added, "changed": self.changed, "removed": self.removed}
        said = [f"{len(found)} {what} ({some_of(found, SHOWN)})" for what, found in lists.items() if found]
        files = [f"input files: {', '.join(said)}"] if said else []
        return "; ".join([*files, *(f"option {option}" for option in self.options)])

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
            if sha256_of(source.local_copy(path)) != before[path]["sha256"]:
                changed.append(path)
    return Changes(
        added=sorted(now.keys() - before.keys()),
        changed=changed,
        removed=sorted(before.keys() - now.keys()),
        unchanged=len(before.keys() & now.keys()) - len(changed),
        options=_other_options(manifest["options"], wanted) if wanted else [],
        compared=compared,
    )


def _other_options(before: Mapping[str, Mapping[str, Any]], wanted: RunConfig) -> list[str]:
    """Return the options that differ; options that the run did not have are ignored."""
    differ = []
    for stage in filter(wanted.takes_options_of, wanted.stages()):
        then = before.get(stage.all_tasks[0].name, {})
        for name, value in wanted.of(stage.config).options().items():
            if name in then and name not in IGNORED_OPTIONS and _plain(then[name]) != _plain(value):
                differ.append(f"{stage.name}.{name}: {_plain(then[name])} -> {_plain(value)}")
    return differ


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists instead of tuples."""
    return list(value) if isinstance(value, tuple) else value
