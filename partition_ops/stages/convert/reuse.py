"""Files of a partition that are the same as in the run before: they are copied where they are kept.

Each is read once, as the copy that it has become, and held against the manifest of the run before: what is
damaged is built anew. Why so: docs/decisions/growth.md.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.migration import open_followed, read_migration
from partition_ops.artifacts.proven import ProvenStore
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store
from partition_ops.storage.store import sha256_of_object
from partition_ops.system.json_documents import check_document

logger = logging.getLogger("partition_ops")


class EarlierFiles:
    """The files of the run that a run has followed; nothing, where it has followed none.

    Args:
        destination: Root of the run.
        part: Which partition.

    Memory: 48 MiB.
    """

    def __init__(self, destination: Store, part: int) -> None:
        self._part = part
        self._stack = ExitStack()
        self._run: ProvenStore | None = None
        self._follows = read_migration(destination) is not None
        self._reused = 0
        self._damaged: list[str] = []
        self._contents: dict[str, str] = {}
        if self._follows:
            self._open(destination)

    def __enter__(self) -> EarlierFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def copy(self, task: ArtifactWriter, name: str, contents: dict[str, str]) -> bool:
        """Copy one of `layout.PARTITION_FILES` if it depends on the same as before and is whole.

        Whether that was done; if not, nothing is there.

        Args:
            task: Collects what is written.
            name: The file.
            contents: As from `partition_contents`.
        """
        if self._run is None or name not in contents or self._contents.get(name) != contents[name]:
            return False
        key = layout.partition_file(self._part, name)
        earlier = self._run.listed.get(key)
        try:
            if earlier is None or not self._copy(self._run, task.destination, earlier):
                return False
        except InvalidInputError as error:
            self._refuse(key, error)
            return False
        task.wrote(earlier)
        self._reused += 1
        return True

    def counters(self) -> dict[str, Any]:
        """Figures for the record; none of a run that has followed no other."""
        if not self._follows:
            return {}
        damaged = {"damaged_in_previous": self._damaged} if self._damaged else {}
        return {"files_reused": self._reused, **damaged}

    def _copy(self, run: ProvenStore, destination: Store, earlier: Artifact) -> bool:
        """Whether it could be copied; what is not as the manifest says is removed, and an error."""
        run.stat(earlier.key)  # says so where it is gone or has another size
        if not destination.copy_from(run.run, earlier.key, earlier.size):
            return False
        found = sha256_of_object(destination, earlier.key, earlier.size)
        if found != earlier.sha256:
            destination.delete([earlier.key])
            run.refuse(earlier.key, f"SHA-256 {found}", f"SHA-256 {earlier.sha256}")
        return True

    def _open(self, destination: Store) -> None:
        """Look at the earlier run; one that is gone, or was made by another version, is of no use."""
        try:
            run = self._stack.enter_context(open_followed(destination))
        except InvalidInputError as error:
            logger.warning("convert: nothing of the run before can be used again: %s", error)
            return
        key = layout.partition_stats(self._part)
        if run.manifest["versions"]["partition_ops"] != __version__ or key not in run.listed:
            return
        try:
            stats = run.read_json(key)
            check_document(stats, "partition_stats", where=run.uri_of(key))
        except InvalidInputError as error:
            self._refuse(key, error)
            return
        self._run, self._contents = run, stats.get("contents", {})

    def _refuse(self, key: str, error: InvalidInputError) -> None:
        """Say that a file of the earlier run is damaged, and that its partition does not depend on it."""
        said = (error.problem, error.found, error.expected)
        logger.warning("convert: built from the input, not copied: %s: found %s, expected %s", *said)
        self._damaged.append(key)
