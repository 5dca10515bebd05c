"""``latest.json`` and ``beginning.json``: the run published last, now and when a run began.

Also checks that an input may be published where a graph of another one was.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.lock import holds_lock
from partition_ops.artifacts.lock_document import Holder, describe_lock, read_lock
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import ConflictError, InvalidInputError, UsageError
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document

BEGINNING_VERSION = 1


def begin_run(
    destination: Store, root: Store, holder: Holder, *, source: str | None = None
) -> dict[str, Any]:
    """Write down which run was published last when this one began, and of which input it is.

    A run that begins again, because it failed or was cleared, keeps its first record.

    Args:
        destination: Root of the run.
        root: Root of the graph, where ``latest.json`` is.
        holder: Holder of the lock of the graph.
        source: URI of the input as the user gave it, for `check_same_input`.

    Returns:
        ``latest`` (URI of that run's root, or None), ``holder``.

    Raises:
        InvalidInputError: ``latest.json`` or ``beginning.json`` is broken.
    """
    known = read_beginning(destination)
    if known is not None:
        if known["holder"] != dict(holder):  # a run of the same ID in another Airflow began it
            known = {**known, "holder": dict(holder)}
            destination.write_json(layout.BEGINNING, known)
        return known
    latest = latest_run(root)
    beginning = {"version": BEGINNING_VERSION, "latest": latest, "holder": dict(holder)}
    if source is not None:
        beginning["input"] = source
    destination.write_json(layout.BEGINNING, beginning)
    return beginning


def read_beginning(destination: Store) -> dict[str, Any] | None:
    """Return the record of `begin_run`, or None if the run has none.

    Raises:
        InvalidInputError: ``beginning.json`` is broken.
    """
    if not destination.exists(layout.BEGINNING):
        return None
    return read_document(destination, layout.BEGINNING, "beginning")


def check_same_input(root: Store, source: str) -> None:
    """Reject an input if the newest published run of its graph is of another one.

    Args:
        root: Root of the graph.
        source: URI of the input as the user gave it.

    Raises:
        UsageError: It is; the message names both.
        InvalidInputError: A file of that run is broken.
    """
    known = _published_input(root)
    if known is None or _same_root(known, source):
        return
    raise UsageError(
        f"The published runs in {root.uri} are of another input, {known}; only with 'Replace another input'"
        " (replace_input) may this one replace it",
        found=source,
        expected=known,
        remedy="Choose another graph name or output root, or set 'Replace another input', for example if the"
        " graph has moved.",
    )


def check_input_of_output(output: Store, source: str, *, given: str | None = None) -> None:
    """Reject an input if the output is finished and was made from another one.

    Inputs that are ingested into the output are not told apart: their graph has the same place.

    Args:
        output: Root of the output. If its manifest is broken, it takes any input, and the manifest is written
            again.
        source: URI of the root of the graph, also if it is going to be ingested.
        given: The input as the user gave it, for the message; None for ``source``.

    Raises:
        UsageError: The output was made from another input; the message names both.
    """
    try:
        known = str(read_manifest(output)["input"]["uri"])
    except InvalidInputError:
        return
    # a copy of an output names the place of the first one
    own = known.endswith(f"/{layout.INGEST}") and output.exists(f"{layout.INGEST}/{METADATA}")
    if _same_root(known, source) or (own and source == output.uri_of(layout.INGEST)):
        return
    made_from = "a graph that was ingested into it" if own else known
    raise UsageError(
        f"{output.uri} is finished and was made from another input; 'run' replaces it only with"
        " --replace-input",
        found=given or source,
        expected=made_from,
        remedy="Choose another output, or add --replace-input, for example if the graph has moved.",
    )


def _published_input(root: Store) -> str | None:
    """Return the URI of the input of the newest published run; None if it is not known."""
    latest = latest_run(root)
    if latest is None or not latest.startswith(f"{root.uri}/"):
        return None
    run = root.child(latest.removeprefix(f"{root.uri}/"))
    beginning = read_beginning(run) or {}
    if "input" in beginning:
        return str(beginning["input"])
    if not run.exists(layout.MANIFEST):
        return None
    uri: str = read_manifest(run)["input"]["uri"]
    return None if uri == run.uri_of(layout.INGEST) else uri  # made of tables, by an earlier version


def _same_root(one: str, other: str) -> bool:
    """Return whether two URIs name the same folder or file; symbolic links are resolved."""
    plain = [uri.removeprefix("file://").rstrip("/") for uri in (one, other)]
    return plain[0] == plain[1] or (
        not any("://" in uri for uri in plain) and os.path.realpath(plain[0]) == os.path.realpath(plain[1])
    )


def latest_run(root: Store) -> str | None:
    """Return the URI of the run that was published last, or None.

    Raises:
        InvalidInputError: ``latest.json`` is broken, or names a run by a relative path that is not below it.
    """
    return _run_of(root, read_pointer(root))


def run_at(root: Store) -> str:
    """Return the URI of the run at a root: the root itself, or the latest of a graph's runs.

    Raises:
        InvalidInputError: There are runs, but no ``latest.json``; or as of `latest_run`.
    """
    if root.exists(layout.MANIFEST):
        return root.uri
    latest = latest_run(root)
    if latest is None and any(True for _ in root.list(f"{layout.RUNS}/")):
        raise InvalidInputError(
            f"{root.uri} has runs, but no record of which was published last",
            found=f"no {root.uri_of(layout.LATEST)}",
            remedy=f"Name one of the runs, {root.uri_of(layout.RUNS)}/…, or publish one.",
        )
    return latest or root.uri


def open_run(uri: str, opened: Callable[[str], Store]) -> Store:
    """Open a run, or the newest published run if the URI is the root of a graph's runs.

    Args:
        uri: The root.
        opened: Opens a root.

    Raises:
        InvalidInputError: As of `run_at`.
    """
    with opened(uri) as root:
        run = run_at(root)
    return opened(run)


def check_still_latest(destination: Store, root: Store) -> bytes | None:
    """Reject a run if another was published since it began, or if it has lost the lock of its graph.

    Args:
        destination: Root of the run.
        root: Root of the graph.

    Returns:
        The content of ``latest.json`` that was checked; None if there is none.

    Raises:
        ConflictError: Another run was published since, or holds the lock.
    """
    pointer = read_pointer(root)
    beginning = read_beginning(destination)
    if beginning is None:
        return pointer
    if not holds_lock(root, beginning["holder"]):
        lock = read_lock(root)
        raise ConflictError(
            f"{destination.uri} does not hold the lock of its graph",
            found=describe_lock(lock) if lock else f"no {root.uri_of(layout.LOCK)}",
            remedy="Clear the task that takes the lock, and the tasks after it.",
        )
    latest = _run_of(root, pointer)
    if latest not in (beginning["latest"], destination.uri):
        raise ConflictError(
            f"Another run was published since {destination.uri} began",
            found=latest,
            expected=beginning["latest"] or "no published run",
            remedy="Start a new run: it begins from the newest run.",
        )
    return pointer


def point_at(root: Store, pointer: dict[str, Any], *, expected: bytes | None) -> None:
    """Make ``latest.json`` point at a run, if its content is still the expected one.

    Raises:
        ConflictError: It is not.
    """
    check_document(pointer, "latest", where=root.uri_of(layout.LATEST))
    if not root.compare_and_set(layout.LATEST, json_bytes(pointer), expected=expected):
        raise ConflictError(
            f"{root.uri_of(layout.LATEST)} was written while {pointer['run']} was being published",
            found=latest_run(root),
            remedy="Start a new run: it begins from the newest run.",
        )


def read_pointer(root: Store) -> bytes | None:
    """Return the content of ``latest.json``, unchecked; None if there is none."""
    return root.read_if_there(layout.LATEST)


def _run_of(root: Store, pointer: bytes | None) -> str | None:
    if pointer is None:
        return None
    document = root.parse_json(layout.LATEST, pointer)
    check_document(document, "latest", where=root.uri_of(layout.LATEST))
    run: str = document["run"]
    if "://" in run or run.startswith("/"):
        return run
    key = posixpath.normpath(run)
    if key.split("/")[0] in (".", ".."):
        raise InvalidInputError(
            f"{root.uri_of(layout.LATEST)} names a run outside of its folder",
            found=repr(run),
            expected="a URI, or a path to a folder below that folder",
        )
    return root.uri_of(key)


def previous_of(destination: Store) -> str:
    """Return the URI of the run that was published last when this one began; ``""`` if there was none.

    Raises:
        InvalidInputError: `begin_run` was not called for it.
    """
    beginning = read_beginning(destination)
    if beginning is None:
        raise InvalidInputError(
            f"{destination.uri} has no record of which run was published last when it began",
            remedy="Run the task that takes the lock first, or give the URI of the previous run.",
        )
    return beginning["latest"] or ""
