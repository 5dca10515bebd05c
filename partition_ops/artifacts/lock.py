"""``lock.json``: one run at a time works on a graph, whoever started it."""

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
LONGEST = timedelta(hours=24)  # for the lock of a DAG run, which nobody renews
SILENCE = timedelta(minutes=10)  # for that of a process
RENEWED_EVERY = timedelta(minutes=1)
Lock = dict[str, Any]
Holder = Mapping[str, str | int]
CALLS: dict[str, tuple[Store, Holder]] = {}  # what this process holds, or is about to


def take_lock(
    root: Store, holder: Holder, *, abandoned: Callable[[Lock], str | None] | None = None
) -> Lock | None:
    """Take the lock of a root, unless somebody else holds it.

    Who holds it already keeps it. Of several who take it at once, one gets it.

    Args:
        root: What is locked: the root of a graph's runs, or of an output.
        holder: Who takes it: the same values every time that the same run asks.
        abandoned: Says why a lock that somebody else holds does not count any more, or gives None; by default
            `too_old` says so.

    Returns:
        None once it is ours; otherwise the lock that somebody else holds.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_lock(root)
    if found is not None and found["holder"] == dict(holder):
        return None
    if found is not None:
        reason = (abandoned or too_old)(found)
        if reason is None:
            return found
        logger.warning("The lock of %s is taken over from %s: %s", root.uri, described(found), reason)
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
    """Give the lock back; whether it was the holder's.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    held = holds_lock(root, holder)
    if held:
        root.delete([layout.LOCK])
    return held


def holds_lock(root: Store, holder: Holder) -> bool:
    """Whether the lock is the holder's.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_lock(root)
    return found is not None and found["holder"] == dict(holder)


def read_lock(root: Store) -> Lock | None:
    """The lock of a root, or None where nobody holds it.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    if not root.exists(layout.LOCK):
        return None
    where = root.uri_of(layout.LOCK)
    try:
        with explain_damage(
            where,
            f"{where} is broken, so that nobody can tell who works there",
            expected="the lock of a call or of a DAG run",
            remedy="Make sure that no other call and no DAG run works there, remove the file, and try again.",
        ):
            lock: Lock = root.read_json(layout.LOCK)
            check_document(lock, "lock", where=where)
    except InvalidInputError:
        if not root.exists(layout.LOCK):
            return None  # given back in the meantime
        raise
    return lock


@contextmanager
def locked(root: Store) -> Iterator[None]:
    """Hold the lock of a root for the length of a ``with`` block, as this process, and renew it now and then.

    The lock of a process that was killed does not count any more: on its own host at once, elsewhere when it
    has not been renewed for `SILENCE`.

    Raises:
        ConflictError: Somebody else holds it.
    """
    call = secrets.token_hex(8)
    holder: Holder = {"host": socket.gethostname(), "process": os.getpid(), "call": call}
    CALLS[call] = root, holder
    ended = threading.Event()
    renewal = threading.Thread(target=_renew, args=(root, holder, ended), daemon=True)
    refused = False
    try:
        try:
            _take_or_refuse(root, holder)
        except PartitionOpsError:
            refused = True
            raise
        renewal.start()
        yield
    finally:  # of whatever could be interrupted once the lock may be ours
        ended.set()
        if renewal.is_alive():
            renewal.join()
        if not refused:
            release_lock(root, holder)
        del CALLS[call]


def _take_or_refuse(root: Store, holder: Holder) -> None:
    held = take_lock(root, holder, abandoned=_ended)
    if held is not None:
        raise ConflictError(
            f"{root.uri} is in use",
            found=described(held),
            remedy=f"Wait for its end; if it was killed elsewhere, for {SILENCE} after that.",
        )


def release_all() -> None:
    """Give back every lock of this process, which is about to end and cannot wait for those who hold them."""
    for root, holder in [*CALLS.values()]:
        with suppress(PartitionOpsError):
            release_lock(root, holder)


register_cleanup(release_all)


def _renew(root: Store, holder: Holder, ended: threading.Event) -> None:
    """Say now and then that the process still lives; storage that fails for a while is no reason to stop."""
    while not ended.wait(RENEWED_EVERY.total_seconds()):
        with suppress(PartitionOpsError):
            lock = read_lock(root)
            if lock is not None and lock["holder"] == dict(holder):
                renewed = json_bytes({**lock, "renewed": _now()})
                root.compare_and_set(layout.LOCK, renewed, expected=json_bytes(lock))


def _ended(lock: Lock) -> str | None:
    """Why the lock of a process does not count any more: it ran here and has ended, or it is too old."""
    holder = lock["holder"]
    if holder.get("host") != socket.gethostname():
        return too_old(lock)
    if holder["process"] == os.getpid():  # of ours, or of one that had our number before us
        return None if holder["call"] in CALLS else "its process has ended"
    return too_old(lock) if psutil.pid_exists(int(holder["process"])) else "its process has ended"


def too_old(lock: Lock) -> str | None:
    """Why a lock is too old to count, or None."""
    renewed = lock.get("renewed") or ("process" in lock["holder"] and lock["since"])
    limit = SILENCE if renewed else LONGEST
    age = datetime.now(UTC) - datetime.fromisoformat(renewed or lock["since"])
    return f"nothing has been heard of it for more than {limit}" if age > limit else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def described(lock: Lock) -> str:
    """Who holds a lock, for messages."""
    holder = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in lock["holder"].items())
    return f"{holder}, since {lock['since']}"
