"""The content of ``lock.json``: who holds the lock of a root."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import find_document
from partition_ops.errors import ConflictError
from partition_ops.storage import Store

LOCK_VERSION = 2
DAG_RUN_TIMEOUT = timedelta(hours=24)  # its tasks renew the lock, but nothing does while they are queued
OLD_PROCESS_TIMEOUT = timedelta(minutes=10)  # of locks of version 1
Lock = dict[str, Any]
Holder = Mapping[str, str | int]


def read_lock(root: Store) -> Lock | None:
    """Return the lock of a root, or None if nobody holds it.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
        ConflictError: A newer version of this package has written it.
    """
    found = read_any_lock(root)
    return None if found is None or "released" in found else found


def read_any_lock(root: Store) -> Lock | None:
    """Return the content of ``lock.json``, which may be a released lock, or None if there is no such file."""

    def check_version(lock: Any) -> None:
        version = lock.get("version") if isinstance(lock, dict) else None
        if isinstance(version, int) and version > LOCK_VERSION:
            raise ConflictError(
                f"{root.uri} is in use by a newer version of partition-ops",
                found=f"version {version} of {root.uri_of(layout.LOCK)}",
                expected=f"version {LOCK_VERSION} or lower",
                remedy="Wait until that process or DAG run has ended, or use that version.",
            )

    return find_document(
        root,
        layout.LOCK,
        "lock",
        "is broken, so its holder is unknown",
        expected="the lock of a process or of a DAG run",
        remedy="Make sure that no process and no DAG run works there, remove the file, and try again.",
        check=check_version,
    )


def held_lock(root: Store, holder: Holder) -> Lock:
    """Return the lock of a root.

    Raises:
        ConflictError: The holder does not have it.
    """
    lock = read_lock(root)
    if lock is None or lock["holder"] != dict(holder):
        raise ConflictError(
            f"The lock of {root.uri} is not held by {described(holder)}",
            found=describe_lock(lock) if lock else f"no {root.uri_of(layout.LOCK)}",
            remedy="Clear the task that takes the lock, and the tasks after it."
            if "dag_id" in holder
            else "Run the same command again.",
        )
    return lock


def describe_lock(lock: Lock) -> str:
    """Return who holds a lock, for messages."""
    return f"{described(lock['holder'])}, since {lock['since']}"


def described(holder: Holder) -> str:
    """Return a holder, for messages."""
    shown = {name: value for name, value in holder.items() if name not in ("system", "started")}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())


def current_time() -> str:
    """Return the time as locks have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def lock_timeout(lock: Lock) -> timedelta:
    """Return after what time a lock expires that is not renewed."""
    if "timeout_seconds" in lock:
        return timedelta(seconds=lock["timeout_seconds"])
    return OLD_PROCESS_TIMEOUT if "process" in lock["holder"] else DAG_RUN_TIMEOUT


def in_use(root: Store, lock: Lock | None) -> ConflictError:
    """Return the error for a root whose lock another holder has, or has just released."""
    if lock is None:
        found, remedy = f"no {root.uri_of(layout.LOCK)} any more", "Run the same command again."
    else:
        found = describe_lock(lock)
        remedy = "Wait until it ends; if it was killed on another host or in another container, for"
        remedy += f" {lock_timeout(lock)} after that."
    return ConflictError(f"{root.uri} is in use", found=found, remedy=remedy)
