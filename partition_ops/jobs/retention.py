"""Remove old runs of a graph that are no longer needed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import latest_run, read_beginning
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.artifacts.stage import is_ours, job_stages, written_folders
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RetentionConfig
from partition_ops.stages.publish.run_index import leave_out, run_name
from partition_ops.storage import Store, StoredObject


def marks() -> set[str]:
    """Return the keys of which a folder must have one to be a run; they are removed last."""
    single = (task.name for stage in job_stages() for task in stage.all_tasks if not task.each)
    return {layout.MARKER, layout.BEGINNING, layout.VALIDATION_REPORT, *map(layout.record, single)}


@dataclass(frozen=True)
class Retained:
    """The result of `retain_runs`."""

    kept: Mapping[str, str]  # reasons by URI of the runs that stay
    removed: list[str]  # URIs of the runs that were removed
    bytes: int  # bytes of the removed objects
    total: int  # bytes of the objects of all runs, with the removed ones
    passed_over: list[str]  # URIs of folders beside the runs that are not runs


def check_root(root: Store) -> None:
    """Check that a root is the root of a graph's runs; nothing is written.

    Raises:
        InvalidInputError: There is no ``latest.json``.
    """
    if root.exists(layout.LATEST):
        return
    there = any(True for _ in root.list(f"{layout.RUNS}/"))
    missing = [layout.LATEST] if there else [f"{layout.RUNS}/", layout.LATEST]
    raise InvalidInputError(
        f"{root.uri} is not the root of a graph's runs",
        found=[f"no {name} below {root.uri}" for name in missing],
        expected=f"{layout.LATEST}, which names the run published last, and {layout.RUNS}/",
        remedy="Check the path: Airflow publishes below <output>/<graph>. The output of 'partition-ops run'"
        " is a single run, in which there is nothing to remove.",
    )


def retain_runs(config: RetentionConfig, root: Store, *, now: float | None = None) -> Retained:
    """Remove runs of a graph that are neither among the newest nor young.

    A run with a manifest is finished. A run without one failed or is still running; it is removed once it is
    old. Three runs always stay: the one that ``latest.json`` names, the one that holds the lock, and the one
    that the latter began from. The manifest of a run is removed first, so that a partly removed run does not
    count as finished. Only folders below ``runs/`` that have the mark of a run (see `marks`) are removed.

    Args:
        config: Which runs stay.
        root: Root of the graph, with ``latest.json`` and ``runs/``.
        now: Seconds since the epoch; the current time if omitted.

    Raises:
        InvalidInputError: There is no ``latest.json``, or it or ``lock.json`` is broken. Nothing is removed.

    Memory: the list of all objects of all runs.
    """
    check_root(root)
    folders = _folders(root)
    runs = _runs(root, folders)
    needed = _needed(root, runs)
    finished = sorted(
        (name for name, found in runs.items() if layout.MANIFEST in found),
        key=lambda name: (runs[name][layout.MANIFEST].modified, name),
        reverse=True,
    )
    newest = set(finished[: config.keep])
    limit = (time.time() if now is None else now) - config.grace.total_seconds()
    kept, removed = {}, []
    for name, found in runs.items():
        reason = needed.get(name) or (f"one of the newest {config.keep}" if name in newest else None)
        if reason is None and max(entry.modified for entry in found.values()) > limit:
            reason = f"younger than {config.grace}"
        if reason is None:
            removed.append(name)
        else:
            kept[root.uri_of(_folder(name))] = reason
    if not config.dry_run:
        leave_out(root, removed)  # before they go: a list shows no run that is half removed
        for name in removed:
            _remove(root, name, runs[name])
    return Retained(
        kept=kept,
        removed=[root.uri_of(_folder(name)) for name in removed],
        bytes=sum(entry.size for name in removed for entry in runs[name].values()),
        total=sum(entry.size for found in runs.values() for entry in found.values()),
        passed_over=[root.uri_of(_folder(name)) for name in folders if name not in runs],
    )


def delete_run(root: Store, name: str) -> int:
    """Remove one run of a graph, whatever its age. The caller holds the lock of the graph.

    Args:
        root: Root of the graph, with ``latest.json`` and ``runs/``.
        name: Name of the folder of the run below ``runs/``.

    Returns:
        Bytes of the removed objects.

    Raises:
        InvalidInputError: There is no such run, ``latest.json`` names it, or it or ``lock.json`` is broken.
            Nothing is removed.

    Memory: the list of all objects of the run.
    """
    check_root(root)
    run = root.child(_folder(name))
    found = {entry.key: entry for entry in run.list()}
    if marks().isdisjoint(found):
        raise InvalidInputError(
            f"{run.uri} is not a run",
            found=f"{len(found)} objects, none of which only a run has",
            expected=f"the name of a folder in {root.uri_of(layout.RUNS)}/ that a run has written",
        )
    latest = latest_run(root)
    if latest and run_name(latest) == name:
        raise InvalidInputError(
            f"{run.uri} cannot be deleted",
            found=f"{root.uri_of(layout.LATEST)} names it as the run published last",
            remedy="Publish another run first.",
        )
    leave_out(root, [name])
    _remove(root, name, found)
    return sum(entry.size for entry in found.values())


def remove_graph(root: Store) -> list[str]:
    """Remove all runs of a graph, ``latest.json`` and the index. The caller holds the lock of the graph.

    Files of others stay. A call that was killed is finished by another one.

    Args:
        root: Root of the graph.

    Returns:
        URIs of the runs that were removed.

    Memory: the list of all objects of all runs.
    """
    runs = _runs(root)
    root.delete([layout.LATEST, layout.INDEX])  # first: nobody begins to train on a run that goes
    for name, found in runs.items():
        _remove(root, name, found)
    root.delete_empty(layout.RUNS)
    return [root.uri_of(_folder(name)) for name in runs]


def has_graph(root: Store) -> bool:
    """Return whether there is anything that `remove_graph` would remove."""
    return root.exists(layout.LATEST) or bool(_runs(root))


def _folder(name: str) -> str:
    return f"{layout.RUNS}/{name}"


def _folders(root: Store) -> dict[str, dict[str, StoredObject]]:
    """Return the objects of every folder below ``runs/``, by folder name and key in the folder."""
    folders: dict[str, dict[str, StoredObject]] = {}
    for entry in root.list(f"{layout.RUNS}/"):
        name, inside, key = entry.key.removeprefix(f"{layout.RUNS}/").partition("/")
        if inside:
            folders.setdefault(name, {})[key] = entry
    return folders


def _runs(
    root: Store, folders: Mapping[str, dict[str, StoredObject]] | None = None
) -> dict[str, dict[str, StoredObject]]:
    """Return the folders that have the mark of a run."""
    found = _folders(root) if folders is None else folders
    return {name: objects for name, objects in found.items() if not marks().isdisjoint(objects)}


def _needed(root: Store, runs: Mapping[str, Any]) -> dict[str, str]:
    """Return the reasons by name of the runs that always stay."""
    needed = {}
    lock = read_lock(root)
    for name, found in runs.items():
        beginning = read_beginning(root.child(_folder(name))) if layout.BEGINNING in found else None
        if beginning and lock and beginning["holder"] == lock["holder"]:
            needed[name] = f"it holds {layout.LOCK}"
            if beginning["latest"]:
                needed[run_name(beginning["latest"])] = f"{name} began from it"
    latest = latest_run(root)
    if latest:
        needed[run_name(latest)] = f"{layout.LATEST} names it"
    return needed


def _remove(root: Store, name: str, keys: Iterable[str]) -> None:
    """Remove a run: the manifest first and the marks last, so that another call can finish a killed one.

    Files of others in its root stay; those in the folders that a run writes do not.
    """
    run = root.child(_folder(name))
    last, folders = marks(), [*written_folders(), layout.SCRATCH]
    ours = [key for key in keys if is_ours(key)]
    run.delete([layout.MANIFEST])
    run.delete([key for key in ours if key not in last])
    run.delete_unfinished(folders)
    run.delete([key for key in ours if key in last])
    for folder in folders:
        run.delete_empty_folders(folder)
    root.delete_empty(_folder(name))
