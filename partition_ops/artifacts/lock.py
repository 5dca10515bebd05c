"""``lock.json``: only one run at a time works on a graph or an output."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil

from partition_ops.artifacts import layout
from partition_ops.errors import ConflictError, InvalidInputError, PartitionOpsError
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes
from partition_ops.system.json_documents import check_document, explain_damage
from partition_ops.system.signals import register_cleanup

logger = logging.getLogger("partition_ops")

LOCK_VERSION = 1
DAG_RUN_TIMEOUT = timedelta(hours=24)  # the lock of a DAG run is never renewed
PROCESS_TIMEOUT = timedelta(minutes=10)  # since a process renewed its lock last
RENEWAL_INTERVAL = timedelta(minutes=1)
Lock = dict[str, Any]
Holder = Mapping[str, str | int]
CALLS: dict[str, tuple[Store, Holder]] = {}  # locks that this process holds, or is about to take


def take_lock(
    root: Store, holder: Holder, *, abandoned: Callable[[Lock], str | None] | None = None
) -> Lock | None:
    """Take the lock of a root, unless another holder has it.

    A holder that already has the lock keeps it. If several try at once, one gets it.

    Args:
        root: Root to lock: of a graph's runs, or of an output.
        holder: Identifies the holder, with the same values each time that the same run asks.
        abandoned: Returns why the lock of another holder no longer counts, or None if it counts; the default
            is `expiry_reason`.

    Returns:
        None if the holder has the lock now; otherwise the lock of the other holder.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_lock(root)
    if found is not None and found["holder"] == dict(holder):
        return None
    if found is not None:
        reason = (abandoned or expiry_reason)(found)
        if reason is None:
            return found
        logger.warning("Taking over the lock of %s from %s: %s", root.uri, describe_lock(found), reason)
    lock = {
        "version": LOCK_VERSION,
        "holder": dict(holder),
        "since": _now(),
        "token": secrets.token_hex(16),  # no two are alike
    }
    expected = json_bytes(found) if found is not None else None
    if root.compare_and_set(layout.LOCK, json_bytes(lock), expected=expected):
        return None
    return read_lock(root) or lock


def release_lock(root: Store, holder: Holder) -> bool:
    """Release the lock, and return whether the holder had it.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    held = holds_lock(root, holder)
    if held:
        root.delete([layout.LOCK])
    return held


def holds_lock(root: Store, holder: Holder) -> bool:
    """Return whether the holder has the lock.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_lock(root)
    return found is not None and found["holder"] == dict(holder)


def read_lock(root: Store) -> Lock | None:
    """Return the lock of a root, or None if nobody holds it.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    if not root.exists(layout.LOCK):
        return None
    where = root.uri_of(layout.LOCK)
    try:
        with explain_damage(
            where,
            f"{where} is broken, so its holder is unknown",
            expected="the lock of a process or of a DAG run",
            remedy="Make sure that no process and no DAG run works there, remove the file, and try again.",
        ):
            lock: Lock = root.read_json(layout.LOCK)
            check_document(lock, "lock", where=where)
    except InvalidInputError:
        if not root.exists(layout.LOCK):
            return None  # released in the meantime
        raise
    return lock


@contextmanager
def locked(root: Store) -> Iterator[None]:
    """Hold the lock of a root for this process during a ``with`` block, and renew it every minute.

    The lock of a killed process no longer counts: immediately on its own host, and elsewhere once it has not
    been renewed for `PROCESS_TIMEOUT`.

    Raises:
        ConflictError: Another holder has it.
    """
    call = secrets.token_hex(8)
    holder: Holder = {"host": socket.gethostname(), "process": os.getpid(), "call": call}
    CALLS[call] = root, holder
    ended = threading.Event()
    renewal = threading.Thread(target=_renew, args=(root, holder, ended), daemon=True)
    refused = False
    try:
        try:
            _take_or_raise(root, holder)
        except PartitionOpsError:
            refused = True
            raise
        renewal.start()
        yield
    finally:  # also if interrupted while taking the lock
        ended.set()
        if renewal.is_alive():
            renewal.join()
        if not refused:
            release_lock(root, holder)
        del CALLS[call]


def _take_or_raise(root: Store, holder: Holder) -> None:
    held = take_lock(root, holder, abandoned=_process_end)
    if held is not None:
        raise ConflictError(
            f"{root.uri} is in use",
            found=describe_lock(held),
            remedy=f"Wait until it ends; if it was killed on another host, for {PROCESS_TIMEOUT} after that.",
        )


def release_all() -> None:
    """Release all locks of this process, which is about to end, even if other threads still hold them."""
    for root, holder in [*CALLS.values()]:
        with suppress(PartitionOpsError):
            release_lock(root, holder)


register_cleanup(release_all)


def _renew(root: Store, holder: Holder, ended: threading.Event) -> None:
    """Renew the lock every minute; errors of storage are ignored, because they may be temporary."""
    while not ended.wait(RENEWAL_INTERVAL.total_seconds()):
        with suppress(PartitionOpsError):
            lock = read_lock(root)
            if lock is not None and lock["holder"] == dict(holder):
                renewed = json_bytes({**lock, "renewed": _now()})
                root.compare_and_set(layout.LOCK, renewed, expected=json_bytes(lock))


def _process_end(lock: Lock) -> str | None:
    """Return why the lock of a process no longer counts: it ended on this host, or the lock expired."""
    holder = lock["holder"]
    if holder.get("host") != socket.gethostname():
        return expiry_reason(lock)
    if holder["process"] == os.getpid():  # this process, or an earlier one with the same ID
        return None if holder["call"] in CALLS else "its process has ended"
    return expiry_reason(lock) if psutil.pid_exists(int(holder["process"])) else "its process has ended"


def expiry_reason(lock: Lock) -> str | None:
    """Return why a lock has expired, or None."""
    renewed = lock.get("renewed") or ("process" in lock["holder"] and lock["since"])
    limit = PROCESS_TIMEOUT if renewed else DAG_RUN_TIMEOUT
    age = datetime.now(UTC) - datetime.fromisoformat(renewed or lock["since"])
    return f"it was not renewed for more than {limit}" if age > limit else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def describe_lock(lock: Lock) -> str:
    """Return who holds a lock, for messages."""
    holder = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in lock["holder"].items())
    return f"{holder}, since {lock['since']}"
