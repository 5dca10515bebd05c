"""``lock.json``: only one run at a time works on a graph or an output, and only its holder changes it.

Every lock has a token, which grows. A `Fence` makes a store check, immediately before each change, that the
lock in storage still has the token of this process; a process that was suspended and has lost its lock stops
there.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock_document import (
    DAG_RUN_TIMEOUT,
    LOCK_VERSION,
    Holder,
    Lock,
    current_time,
    describe_lock,
    held_lock,
    in_use,
    lock_timeout,
    read_any_lock,
    read_lock,
)
from partition_ops.artifacts.lock_fence import Fence
from partition_ops.artifacts.marker import claimed
from partition_ops.artifacts.write_access import VERBS, check_root
from partition_ops.errors import ConflictError, PartitionOpsError
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes
from partition_ops.system.parallel import at_once
from partition_ops.system.signals import register_cleanup
from partition_ops.system.temporary_folders import has_ended, start_time, system_id

logger = logging.getLogger("partition_ops")

# S3 rejects requests that were signed more than 15 minutes ago: if a process is suspended after the check of
# its lock and before it sends a request, the request is rejected once another process may have the lock
PROCESS_TIMEOUT = timedelta(minutes=20)  # since a process renewed its lock last
RENEWAL_INTERVAL = timedelta(minutes=1)
RUN_ROOT = re.compile(rf"/{layout.RUNS}/[^/]+$")
CALLS: dict[str, tuple[Store, Holder]] = {}  # locks that this process holds, or is about to take


def take_lock(
    root: Store,
    holder: Holder,
    *,
    abandoned: Callable[[Lock], str | None] | None = None,
    timeout: timedelta = DAG_RUN_TIMEOUT,
    settle: bool = True,
) -> Lock | None:
    """Take the lock of a root, unless another holder has it.

    A holder that already has the lock keeps it. If several try at once, one gets it.

    Args:
        root: Root to lock: of a graph's runs, or of an output.
        holder: Identifies the holder, with the same values each time that the same run asks.
        abandoned: Returns why the lock of another holder no longer counts, or None if it counts; the default
            is `end_reason`.
        timeout: The lock expires if it has not been renewed for so long.
        settle: Whether to wait until it is certain who has the lock; otherwise the fence of the holder does.

    Returns:
        None if the holder has the lock now; otherwise the lock of the other holder.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_any_lock(root)
    if found is not None and "released" not in found:
        if found["holder"] == dict(holder):
            return None
        reason = (abandoned or end_reason)(found)
        if reason is None:
            return found
        logger.warning("Taking over the lock of %s from %s: %s", root.uri, describe_lock(found), reason)
    # a token greater than every earlier one: locks that were released leave none behind
    before = found["token"] if found is not None and found["version"] == LOCK_VERSION else 0
    lock = {
        "version": LOCK_VERSION,
        "holder": dict(holder),
        "since": current_time(),
        "timeout_seconds": int(timeout.total_seconds()),
        "token": max(before + 1, time.time_ns()),
    }
    expected = json_bytes(found) if found is not None else None
    if root.compare_and_set(layout.LOCK, json_bytes(lock), expected=expected, fenced=False, settle=settle):
        return None
    return read_lock(root) or lock


def release_lock(root: Store, holder: Holder) -> bool:
    """Release the lock, and return whether the holder had it.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    while (found := read_lock(root)) is not None and found["holder"] == dict(holder):
        released = json_bytes({**found, "released": current_time()})
        if root.compare_and_delete(layout.LOCK, expected=json_bytes(found), instead=released):
            return True  # otherwise the lock has just been renewed
    return False


def holds_lock(root: Store, holder: Holder) -> bool:
    """Return whether the holder has the lock.

    Raises:
        InvalidInputError: ``lock.json`` is broken.
    """
    found = read_lock(root)
    return found is not None and found["holder"] == dict(holder)


@contextmanager
def locked(
    root: Store,
    verb: str | None = "run",
    *,
    reads: Sequence[Store] = (),
    within: Store | None = None,
    checked: bool = False,
) -> Iterator[None]:
    """Hold the lock of a root for this process during a ``with`` block, and renew it every minute.

    Before that, the root is checked with `check_root`, unless the caller has done so (``checked``), and a new
    one gets a marker. If ``verb`` is None, the caller has checked the root in another way.

    The lock of a run in the runs of a graph is that of the graph, which DAG runs take too. In the block, the
    store changes nothing if the lock is lost. If the caller holds the lock for a DAG run,
    by `holding`, that is enough.

    The lock of a killed process no longer counts: immediately on its own host and in its own container, and
    elsewhere once it has not been renewed for `PROCESS_TIMEOUT`. On its own host, a process that is stopped
    keeps its lock.

    Raises:
        ConflictError: Another holder has it, or has taken it over during the block.
        UsageError: The verb may not write there.
    """
    if verb is not None and not checked:
        check_root(verb, root, reads=reads, within=within)  # before the lock is written there
    new = verb is not None and VERBS[verb].new

    def claiming(first: Callable[[Callable[[], None]], None] = at_once) -> AbstractContextManager[None]:
        holds = VERBS[verb].holds if verb is not None and new else None
        return nullcontext() if holds is None else claimed(root, holds, first=first)

    if isinstance(root.fence, Fence) and "process" not in root.fence.holder:
        with claiming():
            yield
        return
    if root.fence is not None:  # of another root, around this one
        root.fence.check()
    place = lock_place(root)
    call = secrets.token_hex(8)
    holder: Holder = {"host": socket.gethostname(), "process": os.getpid(), "call": call, **_identity()}
    CALLS[call] = place, holder
    refused = False
    try:
        try:
            held = take_lock(place, holder, timeout=PROCESS_TIMEOUT, settle=False)
            if held is not None:
                raise in_use(place, held)
        except PartitionOpsError:
            refused = True
            raise
        with (
            holding(place, holder, root, settle=place.settle_seconds) as fence,
            root.snapshot(but=[layout.LOCK]),
            claiming(first=fence.do_first),
        ):
            try:
                yield
            except BaseException:
                fence.stop_first()
                raise
            fence.wait_for_first()
    finally:  # also if interrupted while taking the lock
        if not refused:
            release_lock(place, holder)
        root.delete_made_folders()
        del CALLS[call]


@contextmanager
def holding(place: Store, holder: Holder, *stores: Store, settle: float = 0.0) -> Iterator[Fence]:
    """Let stores change something only while a holder has a lock, which a thread renews.

    Args:
        place: Root of the lock.
        holder: The holder, which has taken it.
        stores: Stores to fence.
        settle: As for `Fence`.

    Raises:
        ConflictError: The holder does not have the lock, or loses it during the block.
    """
    fence = Fence(place, held_lock(place, holder), settle)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWAL_INTERVAL.total_seconds()):
            with suppress(PartitionOpsError):  # errors of storage may be temporary
                fence.renew()

    renewal = threading.Thread(target=renew, daemon=True)
    before = [store.fence for store in stores]  # of the output, if the store is a part of it
    for store in stores:
        store.fence = fence
    renewal.start()
    try:
        yield fence
    except ConflictError:
        raise
    except (PartitionOpsError, OSError) as error:
        # artifacts that another process has replaced meanwhile look damaged
        with suppress(PartitionOpsError):
            fence.lost = fence.lost or fence._token() != fence.token
        if fence.lost:
            raise fence.conflict() from error
        raise
    finally:
        ended.set()
        renewal.join()
        for store, earlier in zip(stores, before, strict=True):
            store.fence = earlier


def lock_place(root: Store) -> Store:
    """Return the root whose lock protects a root: that of the graph for a run of a DAG, otherwise itself."""
    if RUN_ROOT.search(root.uri) and root.exists(layout.BEGINNING):
        return root.above(2)
    return root


def check_same_run(root: Store, holder: Holder) -> None:
    """Reject a DAG run if one with the same IDs in another Airflow holds the lock: both have one folder.

    Raises:
        ConflictError: It does.
    """
    lock = read_lock(root)
    names = ("dag_id", "run_id")
    if lock is None or any(lock["holder"].get(name) != holder.get(name) for name in names):
        return
    if lock["holder"] != dict(holder) and "airflow" in lock["holder"] and expiry_reason(lock) is None:
        raise ConflictError(
            f"A run with the same ID in another Airflow works on {root.uri}",
            found=describe_lock(lock),
            remedy="Give the two Airflows different outputs, or start this run with another run ID.",
        )


def extend_lock(root: Store, holder: Holder, timeout: timedelta) -> None:
    """Let a lock expire no earlier than ``timeout`` from now.

    Raises:
        ConflictError: The holder does not have it.
    """
    while True:
        lock = held_lock(root, holder)
        seconds = max(int(timeout.total_seconds()), lock.get("timeout_seconds", 0))
        longer = {**lock, "renewed": current_time(), "timeout_seconds": seconds}
        if root.compare_and_set(layout.LOCK, json_bytes(longer), expected=json_bytes(lock), fenced=False):
            return


def release_all() -> None:
    """Release all locks of this process, which is about to end, even if other threads still hold them."""
    for root, holder in [*CALLS.values()]:
        with suppress(PartitionOpsError):
            release_lock(root, holder)


register_cleanup(release_all)


def _identity() -> dict[str, str]:
    """Return what tells this process from all others, on any host and in any container.

    ``system`` is a digest of the host name, the boot ID and the namespaces of process IDs and of time. Linux
    always has them; elsewhere the host name is used.
    """
    system, started = system_id(), start_time(os.getpid())
    if system is None and sys.platform != "linux":
        system = socket.gethostname()
    found = {"system": system, "started": started}
    return {name: value for name, value in found.items() if value is not None}


def end_reason(lock: Lock) -> str | None:
    """Return why a lock no longer counts: its process has ended on this system, or it has expired.

    Of a process on another host or in another container, and of one that an old version started, only the
    expiry is known.
    """
    holder, ours = lock["holder"], _identity()
    if "process" not in holder or "system" not in ours or holder.get("system") != ours["system"]:
        return expiry_reason(lock)
    started = holder.get("started")
    if holder["process"] == os.getpid() and started == ours.get("started"):
        return None if holder["call"] in CALLS else "its process has ended"
    return "its process has ended" if has_ended(int(holder["process"]), started) else None


def expiry_reason(lock: Lock) -> str | None:
    """Return why a lock has expired, or None."""
    renewed, limit = lock.get("renewed") or lock["since"], lock_timeout(lock)
    age = datetime.now(UTC) - datetime.fromisoformat(renewed)
    return f"it was not renewed for more than {limit}" if age > limit else None
