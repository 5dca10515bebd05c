"""A process that clears up after the supervisor, should that be killed before it could do so itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

ROUNDS = 20


class Watchdog:
    """Knows the sessions of the services, and kills them when the supervisor is gone.

    It learns that from a pipe, which the kernel closes at the supervisor's end. It is forked, so it
    also shares the supervisor's lock: nobody starts a new stack before the old one is cleared up.
    """

    def __init__(self) -> None:
        read_end, self._write_end = os.pipe()
        if os.fork() == 0:
            os.close(self._write_end)
            _stay(read_end)
        os.close(read_end)

    def watch(self, session: int) -> None:
        """Add a service, by the process ID that it was started with."""
        os.write(self._write_end, f"{session}\n".encode())


def _stay(read_end: int) -> None:
    """The life of the forked process; it never returns."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with os.fdopen(read_end) as pipe:
            sessions = {int(line) for line in pipe}
        for _ in range(ROUNDS):
            if not _kill(sessions):
                break
            time.sleep(0.2)
    finally:
        os._exit(0)


def _kill(sessions: set[int]) -> int:
    """Kill every process of the sessions; gives back how many there were."""
    killed = 0
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in sessions:
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed
