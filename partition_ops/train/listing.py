"""What an output consists of: as its manifest lists it, or before that the records of ``convert``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.tasks import CONFIG_TASK, part_task, read_record
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store


@dataclass(frozen=True)
class Listing:
    """The artifacts of an output.

    Attributes:
        uri: Root of the output, for messages.
        graph_name: Name of the graph.
        options: Those that ``convert`` was given.
        entries: Size and SHA-256 by key.
    """

    uri: str
    graph_name: str
    options: dict[str, Any]
    entries: dict[str, dict[str, Any]]

    def entry(self, key: str) -> dict[str, Any]:
        """Size and SHA-256 of an artifact.

        Raises:
            InvalidInputError: It is not listed.
        """
        if key not in self.entries:
            raise InvalidInputError(
                f"The manifest of {self.uri} does not list {key}", remedy="Publish the run again."
            )
        return self.entries[key]


def published(output: Store) -> Listing:
    """What the manifest lists.

    Raises:
        InvalidInputError: The output is not finished.
    """
    manifest = read_manifest(output)
    options = manifest["options"].get(CONFIG_TASK, {})
    return Listing(output.uri, manifest["graph_name"], options, _by_key(manifest["artifacts"]))


def converted(output: Store) -> Listing:
    """What ``convert`` has recorded, whether or not the run is published.

    Raises:
        InvalidInputError: The partitions are not converted.
    """
    config = read_record(output, CONFIG_TASK)
    (key,) = [entry["key"] for entry in config["artifacts"] if entry["key"].startswith(layout.PARTITIONS)]
    parts = range(output.read_json(key)["num_parts"])
    written = [read_record(output, part_task(part))["artifacts"] for part in parts]
    entries = [entry for found in (config["artifacts"], *written) for entry in found]
    return Listing(output.uri, PurePosixPath(key).stem, config["options"], _by_key(entries))


def _by_key(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["key"]: entry for entry in entries}
