"""A bound on the memory of this process and its children; work that exceeds it ends with an error.

The kernel would kill a process of its choice instead, or another command. Only Linux tells what processes
hold; on other systems, the bound only limits what stages plan with.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from partition_ops.errors import NotEnoughRoomError
from partition_ops.system.memory import bounds, memory_limit

logger = logging.getLogger("partition_ops")

PROC = Path("/proc")
INTERVAL = 0.1  # seconds between two measurements
SHARE = 0.004  # of a processor that they may take; the only cost of the guard
LONGEST = 0.5  # seconds between two measurements on a machine with many processes
PATIENCE = 5.0  # seconds to unwind
OURS = 15 / 16  # of a machine or cgroup: what the kernel needs for the processes counts in it too
FAR = 1.25  # times the bound: nobody waits any longer
HELD = ("RssAnon:", "RssShmem:")  # of /proc/PID/status: an upper bound, as each page counts in each process
HELD_ONCE = ("Pss_Anon:", "Pss_Shmem:")  # of /proc/PID/smaps_rollup: a shared page counts once; slow
AT_WORK: list[tuple[str, str]] = []  # names of the tasks that run in this process, and what saves memory


class MemoryExceededError(BaseException):
    """Raised where the work is when the bound is exceeded; `bounded_memory` replaces it."""


@dataclass(frozen=True)
class Excess:
    """Memory beyond the bound: bytes measured and allowed, processes, and the tasks at work, as `AT_WORK`."""

    measured: int
    allowed: int
    processes: int
    tasks: tuple[tuple[str, str], ...]

    def error(self) -> NotEnoughRoomError:
        stages = list(dict.fromkeys(name.partition("-")[0] for name, _ in self.tasks))
        ways = dict.fromkeys(remedy for _, remedy in self.tasks if remedy)
        return NotEnoughRoomError(
            f"{' and '.join(stages) or 'The command'} took more memory than --memory allows, and was ended",
            found=f"{_size(self.measured)} in {self.processes} process{'es' * (self.processes > 1)}",
            expected=f"at most {_size(self.allowed)}",
            remedy=" ".join(
                [
                    "Allow more with --memory, or use fewer processors (taskset): each takes memory.",
                    *ways,
                    "'partition-ops estimate' says what each stage takes. Finished work is kept, and the same"
                    " command resumes from there.",
                ]
            ),
        )


def _size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


@contextmanager
def at_work(task: str, remedy: str = "") -> Iterator[None]:
    """Name a task, and what helps if it takes too much memory, for the error while it runs."""
    AT_WORK.append((task, remedy))
    try:
        yield
    finally:
        AT_WORK.remove((task, remedy))


@contextmanager
def bounded_memory(
    limit: int | None, *, give_up: Callable[[NotEnoughRoomError], None] | None = None
) -> Iterator[None]:
    """Bound the memory of this process, and of the children that it starts, during a ``with`` block.

    Stages plan with no more than the bound. A thread measures up to ten times a second what the processes
    hold: anonymous and shared memory, but not pages of files, which the system can reclaim. If that is more
    than the bound, these children get SIGTERM, and the block is interrupted. The bound is never more than
    15/16 of the memory of the machine or of the cgroup.

    Args:
        limit: The bound in bytes; None for none.
        give_up: Called if the block does not end in time, because compiled code does not notice the
            interruption; it cleans up and ends the process. None waits for as long as it takes.

    Raises:
        NotEnoughRoomError: The processes held more.
    """
    if limit is None:
        yield
        return
    limit = min(limit, int(memory_limit() * OURS))
    bounds.append(limit)
    guard = _Guard(limit, give_up)
    try:
        with guard:
            yield
    except BaseException as error:
        if guard.excess is None:
            raise
        raise guard.excess.error() from error
    finally:
        bounds.remove(limit)


class _Guard:
    """The thread that measures.

    Attributes:
        excess: What it found; None as long as the memory is within the bound.
    """

    def __init__(self, limit: int, give_up: Callable[[NotEnoughRoomError], None] | None) -> None:
        self.excess: Excess | None = None
        self._limit = limit
        self._give_up = give_up
        self._tree = ProcessTree()
        self._ended = threading.Event()
        self._owner = threading.get_ident()
        self._in_main = threading.current_thread() is threading.main_thread()
        self._number = signal.SIGRTMAX if sys.platform == "linux" else signal.SIGINT
        self._handler: object = None
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> None:
        if sys.platform != "linux":
            logger.info("The memory of processes cannot be measured on this system, so nothing bounds it")
            return
        if self._in_main:
            self._handler = signal.signal(self._number, self._interrupt)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        if not self._thread.ident:
            return
        try:
            self._stop()
        except MemoryExceededError:  # it was on its way
            self._stop()
        finally:
            if self._in_main:
                signal.signal(self._number, self._handler)  # type: ignore[arg-type]

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._ended.is_set():
            raise MemoryExceededError

    def _watch(self) -> None:
        pause = INTERVAL
        while not self._ended.wait(pause):
            began = time.thread_time()
            measured = self._tree.held(self._limit)
            if measured > self._limit:
                self._end_work(measured)
                return
            pause = min(max(INTERVAL, (time.thread_time() - began) / SHARE), LONGEST)

    def _end_work(self, measured: int) -> None:
        """End the children and interrupt the block; give up if that takes too long."""
        self.excess = Excess(measured, self._limit, len(self._tree.processes), tuple(AT_WORK))
        self._tree.terminate_children()
        if self._in_main:
            signal.pthread_kill(self._owner, self._number)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._owner), ctypes.py_object(MemoryExceededError)
            )
        end = time.monotonic() + PATIENCE
        while not self._ended.wait(INTERVAL):
            late = time.monotonic() > end or self._tree.held(self._limit) > FAR * self._limit
            if late and self._give_up is not None:
                self._give_up(self.excess.error())
                return


@dataclass
class ProcessTree:
    """This process and the children that it starts from now on; those that run already are not ours."""

    processes: set[int] = field(default_factory=lambda: {os.getpid()})  # their IDs
    _others: set[int] = field(
        default_factory=lambda: {child.pid for child in psutil.Process().children(recursive=True)}
    )
    _once: int = 0
    _once_of: int = 0
    _once_again: float = 0.0

    def held(self, limit: int) -> int:
        """Return the bytes that the processes hold, or a number that is too high but not above ``limit``.

        What they share is only told apart if it matters, and not all the time, because that takes the kernel
        long: a child that was just forked has all pages of its parent.
        """
        self._update()
        held = self._sum("status", HELD)
        if held <= limit or len(self.processes) == 1:
            return held
        if held - self._once_of > limit - self._once or time.monotonic() >= self._once_again:
            began = time.thread_time()
            once = self._sum("smaps_rollup", HELD_ONCE)
            self._once, self._once_of = once or held, held  # old kernels do not tell
            self._once_again = time.monotonic() + (time.thread_time() - began) / SHARE
        return self._once

    def terminate_children(self) -> None:
        """Send SIGTERM to the children."""
        self._update()
        for process in self.processes - {os.getpid()}:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)

    def _update(self) -> None:
        """Look at processes that are new; others keep their parents."""
        alive = {*psutil.pids()}
        self.processes &= alive
        self._others &= alive
        parents = {process: _parent(process) for process in alive - self.processes - self._others}
        while found := {process for process, parent in parents.items() if parent in self.processes}:
            self.processes |= found
            parents = {process: parent for process, parent in parents.items() if process not in found}
        # the parent of a process whose parent was not listed may be a child of ours that is even newer
        self._others |= {process for process, parent in parents.items() if parent in alive or parent == 0}

    def _sum(self, file: str, names: tuple[str, ...]) -> int:
        return sum(_kibibytes(process, file, names) for process in self.processes) << 10


def _parent(process: int) -> int | None:
    try:
        text = (PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:  # it has ended
        return None
    return int(text.rpartition(")")[2].split()[1])


def _kibibytes(process: int, file: str, names: tuple[str, ...]) -> int:
    try:
        lines = (PROC / str(process) / file).read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))
