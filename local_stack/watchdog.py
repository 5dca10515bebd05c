"""A process that cleans up if the supervisor is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

ROUNDS = 20


class Watchdog:
    """Kills the sessions of the services when the supervisor has ended.

    A pipe, which the kernel closes at the supervisor's end, tells it. It is forked, so it also shares the
    supervisor's lock: no new stack starts before the old one is cleaned up.
    """

    def __init__(self) -> None:
        read_end, self._write_end = os.pipe()
        if os.fork() == 0:
            os.close(self._write_end)
            _stay(read_end)
        os.close(read_end)

    def watch(self, session: int) -> None:
        """Add a service by its process ID."""
        os.write(self._write_end, f"{session}\n".encode())


def _stay(read_end: int) -> None:
    """Run in the forked process; never returns."""
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
    """Kill every process of the sessions, and return their number."""
    killed = 0
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in sessions:
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed
