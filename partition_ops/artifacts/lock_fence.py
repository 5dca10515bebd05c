"""`Fence`, which keeps a holder from changing anything once its lock is lost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock_document import Lock, current_time, describe_lock, in_use, read_lock
from partition_ops.errors import ConflictError, InvalidInputError, PartitionOpsError
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes


class Fence:
    """Keeps a holder from changing anything once its lock has another token, or is gone.

    Some S3 servers ignore conditions: of processes that take a lock at the same time, the last one has it in
    the end. The holder may read meanwhile, and waits before its first change until it is certain. That saves
    a job on such a server 1 s, in which it reads its input.

    Args:
        root: Root of the lock.
        lock: The lock that the holder has.
        settle: Seconds until it is certain that the holder has it.
    """

    def __init__(self, root: Store, lock: Lock, settle: float = 0.0) -> None:
        self.root = root
        self.token = lock["token"]
        self.holder = lock["holder"]
        self.lost = False
        self._checking = threading.RLock()
        self._checked: tuple[float, ...] = ()
        self._settling = settle > 0
        self._certain = time.monotonic() + settle
        self._first: Future[None] | None = None
        self._stopped = threading.Event()

    def check(self, *, seconds: float = 0.0) -> None:
        """Check that the lock still has the token; only its bytes are read.

        This waits until it is certain who has the lock, and for the work of `do_first`.

        Args:
            seconds: If a process holds the lock, a check that began at most so long ago is enough, by the
                clock of the system and by one that nobody sets: after a suspension, one of them shows it.

        Raises:
            ConflictError: It does not.
            PartitionOpsError: The work of `do_first` failed.
        """
        asked = _clocks()
        with self._checking:
            self._settle()
            now = _clocks()
            if (
                self._checked
                and not self.lost
                and all(a <= b for a, b in zip(asked, self._checked, strict=True))
            ):
                return  # another thread has checked it while this one waited
            ages = [new - old for new, old in zip(now, self._checked, strict=False)]
            # the lock of a DAG run can be taken over at once, when the run has failed
            lasts = seconds > 0 and "process" in self.holder
            if lasts and ages and not self.lost and all(0 <= age <= seconds for age in ages):
                return
            if self.lost or self._token() != self.token:
                self.lost = True
                raise self.conflict()
            self._checked, self._settling = now, False

    def do_first(self, work: Callable[[], None]) -> None:
        """Do some work before any other change, in a thread while it is not certain who has the lock.

        The next change waits for it, and raises its error. So does `wait_for_first`.
        """
        if time.monotonic() >= self._certain:
            work()
            return
        first = self._first = Future[None]()
        begun = threading.Event()

        def do() -> None:
            with self._checking:
                begun.set()
                try:
                    if not self._stopped.wait(self._left()):
                        self.check()
                        work()
                except BaseException as error:
                    first.set_exception(error)
                else:
                    first.set_result(None)

        threading.Thread(target=do, daemon=True).start()
        try:
            begun.wait()
        except BaseException:
            self.stop_first()
            raise

    def wait_for_first(self) -> None:
        """Wait for what `do_first` has begun, and raise its error."""
        if self._first is not None:
            self._first.result()

    def stop_first(self) -> None:
        """Leave out what `do_first` has begun, if it still waits; otherwise wait for it."""
        self._stopped.set()
        with suppress(Exception):
            self.wait_for_first()

    def _settle(self) -> None:
        """Wait until it is certain who has the lock; raise the error of the first change."""
        time.sleep(self._left())
        if self._first is not None and self._first.done():
            self._first.result()

    def _left(self) -> float:
        """Return the seconds until it is certain who has the lock."""
        return max(self._certain - time.monotonic(), 0.0)

    def expire(self) -> None:
        """Let the next check read the lock."""
        self._checked = ()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Check the lock; where the system has file locks, nobody takes it over before the block ends.

        Raises:
            ConflictError: It is lost.
        """
        with self.root.without_takeover():
            self.check()
            yield

    def conflict(self) -> ConflictError:
        """Return the error for a lost lock."""
        lock = None
        with suppress(PartitionOpsError):
            lock = read_lock(self.root)
        if self._settling:  # another process has taken it at the same time
            return in_use(self.root, lock)
        return ConflictError(
            f"{self.root.uri}: another process has taken over the lock of this one, which stops here",
            found=describe_lock(lock) if lock is not None else f"no {self.root.uri_of(layout.LOCK)}",
            remedy="This happens if a process was suspended or cut off for a long time. It has changed"
            " nothing since then. Wait until the other one has ended; the same command then resumes.",
        )

    def renew(self) -> None:
        """Write the time into the lock, if it still has the token."""
        lock = read_lock(self.root)
        if lock is None or lock["token"] != self.token:
            self.lost = True
            return
        renewed = json_bytes({**lock, "renewed": current_time()})
        self.root.compare_and_set(layout.LOCK, renewed, expected=json_bytes(lock), fenced=False)

    def _token(self) -> object:
        try:
            lock = json.loads(self.root.read_bytes(layout.LOCK))
        except (InvalidInputError, ValueError):
            return None
        return lock.get("token") if isinstance(lock, dict) and "released" not in lock else None


def _clocks() -> tuple[float, ...]:
    """Return the time in seconds by the clock of the system, and by one that counts suspension too."""
    return time.time(), time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
