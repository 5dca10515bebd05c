"""``partition-ops.json``: marks a root that this package writes to, and says what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import find_document
from partition_ops.errors import PartitionOpsError
from partition_ops.storage import Store
from partition_ops.system.parallel import at_once

MARKER_VERSION = 1
OUTPUT = "output"
GRAPH = "ingested graph"
FETCHED = "fetched partitions"
ID_MAPS = "maps of IDs"
COPY = "unfinished copy"
IGNORED = {layout.LOCK, layout.MARKER}
Marker = dict[str, Any]


def read_marker(root: Store) -> Marker | None:
    """Return the marker of a root, or None if it has none.

    Raises:
        InvalidInputError: The marker is broken, or of a newer version.
    """
    return find_document(
        root,
        layout.MARKER,
        "marker",
        "is not the marker of a root of partition-ops",
        expected=f"version {MARKER_VERSION} of the marker that every output has",
        remedy="Choose another output, or use the version of partition-ops that wrote this one.",
    )


def write_marker(root: Store, content: str = OUTPUT, *, files: Sequence[str] | None = None) -> None:
    """Write the marker of a root.

    Args:
        root: The root.
        content: `OUTPUT`, `GRAPH`, `FETCHED`, `ID_MAPS` or `COPY`.
        files: Paths of all files that were written there, if no records list them.
    """
    listed = {} if files is None else {"files": sorted(files)}
    root.write_json(layout.MARKER, {"version": MARKER_VERSION, "content": content, **listed})


@contextmanager
def claimed(
    root: Store, content: str = OUTPUT, *, first: Callable[[Callable[[], None]], None] = at_once
) -> Iterator[None]:
    """Mark a root as ours during a block that writes there; a marker without anything else is removed.

    The caller has called `partition_ops.artifacts.write_access.check_root`.

    Args:
        root: The root.
        content: As for `write_marker`.
        first: Called with what writes the marker, and sees to it that nothing else is written before.
    """
    marked = root.exists(layout.MARKER)
    if not marked:
        first(partial(write_marker, root, content))
    try:
        yield
    finally:
        with suppress(PartitionOpsError):
            if not marked and not {*root.names()} - IGNORED:
                root.delete([layout.MARKER])
                root.delete_made_folders()
