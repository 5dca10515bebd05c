"""Copy a tree of files between folders and S3."""

from __future__ import annotations

import shutil
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import read_pointer
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import json_bytes, sha256_of_object
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

LAST = ("graph.yaml", METADATA, layout.MANIFEST, layout.LATEST, layout.MARKER)
WORKERS = 8


def check_outside(source: Store, destination: Store) -> None:
    """Reject a copy that would lie inside what is copied.

    Raises:
        UsageError: It would.
    """
    if destination.canonical_uri.startswith(f"{source.canonical_uri.rstrip('/')}/"):
        raise UsageError(
            "The copy would lie inside what is copied",
            found=f"{destination.uri} in {source.uri}",
            remedy="Choose a folder outside of it.",
        )


def copy_tree(source: Store, destination: Store, *, progress: Progress | None = None) -> dict[str, Any]:
    """Copy all files below a root: a graph, tables, an output, the runs of a graph, or any other tree.

    Every file appears whole or not at all. Those that readers start from are copied last, so that nobody
    takes a part of the tree for the whole. An interrupted call is resumed: files that are there with the same
    content are not copied again. Locks are not copied. ``latest.json`` of the copy names the run in the copy.

    Args:
        source: Root of the tree.
        destination: Root of the copy, which the caller has locked for the verb ``copy``.
        progress: Shows the bytes.

    Returns:
        ``files`` and ``bytes`` of the tree, and ``copied``, the bytes that this call has copied.

    Raises:
        InvalidInputError: There are no files.
        StorageError: A file changes meanwhile.

    Memory: the list of all files. Disk: 8 files at a time while they are copied from or to S3.
    """
    found = [one for one in source.list() if one.key.rpartition("/")[2] != layout.LOCK]
    if not found:
        raise InvalidInputError(
            f"There are no files in {source.uri}",
            expected="a folder, which is copied whole",
            remedy="Check the path.",
        )
    total = sum(one.size for one in found)
    with (progress or NoProgress()).step(f"Copying to {destination.uri}", total, "bytes") as advance:

        def copy(one: StoredObject) -> int:
            copied = _copy(source, destination, one)
            advance(one.size)
            return one.size if copied else 0

        first = [one for one in found if _rank(one.key) < 0]
        last = sorted((one for one in found if _rank(one.key) >= 0), key=lambda one: _rank(one.key))
        done = sum(map_in_threads(copy, first, workers=WORKERS)) + sum(map(copy, last))
    if not source.exists(layout.MARKER):
        destination.delete([layout.MARKER])
    return {"files": len(found), "bytes": total, "copied": done}


def _rank(key: str) -> int:
    """Return the place of a file among those that are copied last, or -1. Those of the root come last."""
    folder, _, name = key.rpartition("/")
    return LAST.index(name) + (0 if folder else len(LAST)) if name in LAST else -1


def _copy(source: Store, destination: Store, one: StoredObject) -> bool:
    """Copy a file unless it is there, and return whether it was copied."""
    key = one.key
    if key == layout.LATEST:
        destination.write_bytes(key, _moved_pointer(source, destination))
        return True
    there = destination.stat(key) if key != layout.MARKER else None
    if there is not None and there.size == one.size and _digest(source, one) == _digest(destination, one):
        return False
    remote = "://" in destination.uri  # a local store would make a hard link, through which edits show
    if remote and key != layout.MARKER and destination.copy_from(source, key, one.size):
        return True
    with destination.create(key) as new:
        shutil.copyfile(source.local_copy(key), new.path)
    written = new.get_artifact()
    if written.size != one.size:
        raise StorageError(
            f"{source.uri_of(key)} changed while it was copied",
            found=f"{written.size} bytes",
            expected=f"{one.size} bytes",
            remedy="Run the same command again.",
        )
    return True


def _digest(store: Store, one: StoredObject) -> str:
    return sha256_of_object(store, one.key, one.size)


def _moved_pointer(source: Store, destination: Store) -> bytes:
    """Return ``latest.json`` with the URIs of the copy."""
    data = read_pointer(source) or b""
    pointer = source.parse_json(layout.LATEST, data)
    if not isinstance(pointer, dict):
        return data
    begin = f"{source.uri}/"
    return json_bytes(
        {
            name: destination.uri_of(value.removeprefix(begin))
            if isinstance(value, str) and value.startswith(begin)
            else value
            for name, value in pointer.items()
        }
    )
