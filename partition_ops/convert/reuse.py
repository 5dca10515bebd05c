"""Files of a partition that are the same as in the run before: they are copied where they are kept."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

from partition_ops import __version__, artifacts
from partition_ops.documents import check_document
from partition_ops.errors import InvalidInputError
from partition_ops.graph.followed import open_followed, read_migration
from partition_ops.graph.manifest import read_manifest
from partition_ops.storage import Artifact, Store
from partition_ops.tasks import Task

logger = logging.getLogger("partition_ops")


class EarlierFiles:
    """The files of the run that a run has followed; nothing, where it has followed none.

    Args:
        destination: Root of the run.
        part: Which partition.
    """

    def __init__(self, destination: Store, part: int) -> None:
        self._part = part
        self._stack = ExitStack()
        self._run: Store | None = None
        self._artifacts: dict[str, Artifact] = {}
        self._contents: dict[str, str] = {}
        if read_migration(destination) is not None:
            self._open(destination)

    def __enter__(self) -> EarlierFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def copy(self, task: Task, name: str, contents: dict[str, str]) -> bool:
        """Copy one of `artifacts.PARTITION_FILES` if it depends on the same as before; whether that was done.

        Args:
            task: Collects what is written.
            name: The file.
            contents: As from `partition_contents`.
        """
        earlier = self._artifacts.get(artifacts.partition_file(self._part, name))
        if self._run is None or earlier is None or name not in contents:
            return False
        if self._contents.get(name) != contents[name]:
            return False
        if not task.destination.copy_from(self._run, earlier.key, earlier.size):
            return False
        task.wrote(earlier)
        return True

    def _open(self, destination: Store) -> None:
        """Look at the earlier run; one that is gone, or was made by another version, is of no use."""
        try:
            run = self._stack.enter_context(open_followed(destination))
            manifest = read_manifest(run)
            stats = _read_stats(run, self._part)
        except InvalidInputError as error:
            logger.info("convert: nothing of the run before can be used again: %s", error)
            return
        if manifest["versions"]["partition_ops"] == __version__:
            self._run = run
            self._artifacts = {entry["key"]: Artifact(**entry) for entry in manifest["artifacts"]}
            self._contents = stats.get("contents", {})


def _read_stats(run: Store, part: int) -> dict[str, Any]:
    key = artifacts.partition_stats(part)
    stats: dict[str, Any] = run.read_json(key)
    check_document(stats, "partition_stats", where=run.uri_of(key))
    return stats
