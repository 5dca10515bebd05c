"""Has the input of a finished run changed since?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.tasks import input_objects, read_record
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.jobs.options import RunConfig
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of

SHOWN = 3
OPTIONS_OF = {"partition": "partition", "convert": "convert-plan", "validate": "validate"}
"""Stages by the task whose record has their options."""
PASSED_OVER = {"graph_name", "data_docs", "memory"}
"""Options that change nothing in the partitions, or that tell graphs apart."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is different now.

    Attributes:
        added: Paths of input files that the run did not have.
        changed: Paths of those whose content is another one.
        removed: Paths of those that are not there any more.
        unchanged: Number of the others.
        options: What is asked for now and was not then, as ``stage.option: before -> now``.
        compared: Number of files that had to be read to compare their checksums.
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
    """Compare the input of a finished run with what is there now.

    Files whose size and tag (the ETag on S3, size and modification time on a disk) are those of then are
    taken for unchanged; the SHA-256 of others of the same size is compared with the manifest's. Memory: the
    list of files.

    Args:
        source: Root of the input graph.
        run: Root of the finished run.
        wanted: Options of the next run, to be compared too.

    Raises:
        InvalidInputError: The run is not finished, or the graph's metadata or a file of it is missing.
    """
    manifest = read_manifest(run)
    before = {entry["path"]: entry for entry in manifest["input"]["files"]}
    name = wanted.graph_name if wanted else manifest["graph_name"]
    now = {entry.key: entry for entry in input_objects(source, load_metadata(source, graph_name=name))}
    tags = _tags(run) if manifest["input"]["uri"] == source.uri else {}
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


def _tags(run: Store) -> dict[str, str]:
    """Tags of the input files when they were validated; an older version has not kept them."""
    try:
        inputs = read_record(run, "validate").get("inputs", [])
    except InvalidInputError:  # the record is not an artifact, and may have been removed
        return {}
    return {entry["path"]: entry["tag"] for entry in inputs}


def _other_options(before: Mapping[str, Mapping[str, Any]], wanted: RunConfig) -> list[str]:
    """The options that differ; those that the run did not know are passed over."""
    differ = []
    for stage, task in OPTIONS_OF.items():
        then = before.get(task, {})
        for name, value in getattr(wanted, stage).options().items():
            if name in then and name not in PASSED_OVER and _plain(then[name]) != _plain(value):
                differ.append(f"{stage}.{name}: {_plain(then[name])} -> {_plain(value)}")
    return differ


def _plain(value: Any) -> Any:
    """As JSON has it: lists instead of tuples."""
    return list(value) if isinstance(value, tuple) else value
