"""Services as process groups that end with the process that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from partition_ops.errors import clipped

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TAIL_LINES = 15
TAIL_WIDTH = 200
GRACE_SECONDS = 6.0
PORTS = range(15_000, 30_000)  # below the ephemeral ports of Linux and macOS

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class StackError(Exception):
    """An error of the local stack, with a message for the user."""


class Service:
    """A program in a process group of its own, with its output in a log file.

    Args:
        name: For messages.
        command: The program and its arguments.
        env: Its whole environment.
        log: File for its output; an existing file is replaced.
    """

    def __init__(self, name: str, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> int | None:
        """Return the exit status, or None while the program runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raise an error with the last lines of the log if the program has ended."""
        status = self.status()
        if status is not None:
            raise self._ended(status)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait until the service answers.

        Raises:
            StackError: It ended, or did not answer in time.
        """
        end = time.monotonic() + seconds
        while not ready():
            self.check()  # also below: another program may answer in place of a service that has ended
            if time.monotonic() > end:
                raise StackError(f"{self.name} did not answer within {seconds:.0f} s.\n{tail(self.log)}")
            time.sleep(0.2)
        self.check()

    def wait_until_done(self, *, seconds: float) -> None:
        """Wait until the program has succeeded.

        Raises:
            StackError: It failed, or took too long.
        """
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise StackError(f"{self.name} took more than {seconds:.0f} s.\n{tail(self.log)}") from None
        if status != 0:
            raise self._ended(status)

    def _ended(self, status: int) -> StackError:
        """Return the error for a program that has ended; a negative status is the number of a signal."""
        how = f"ended with status {status}."
        if status < 0:
            how = f"was ended by signal {-status} ({signal.strsignal(-status)})."
        if status == -signal.SIGKILL:
            how += " If no person or program killed it, the machine had too little memory."
        return StackError(f"{self.name} {how}\n{tail(self.log)}")

    def terminate(self) -> None:
        """Send SIGTERM to the group, without waiting."""
        _signal_group(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """End the group, by SIGTERM and then by SIGKILL."""
        stop_together([self])

    def kill_after(self, seconds: float) -> None:
        """Wait for the end, then kill the rest of the group."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0))
        _signal_group(self.pid, signal.SIGKILL)
        self._process.wait()


def stop_together(services: Sequence[Service]) -> None:
    """End several services within one period of grace."""
    end = time.monotonic() + GRACE_SECONDS
    for service in services:
        service.terminate()
    for service in services:
        service.kill_after(end - time.monotonic())


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, even if the parent is killed (Linux only)."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Adopt descendants whose parent ends (Linux only)."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """Kill all remaining descendants of this process."""
    left = psutil.Process().children(recursive=True)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=5)


def free_port(preferred: int = 0) -> int:
    """Return a free port of 127.0.0.1: the preferred one if it is free, or else one that is not ephemeral.

    The system may give an ephemeral port to a connection before a server listens on it.
    """
    for port in (*filter(None, [preferred]), *random.sample(PORTS, 100), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StackError("No port of 127.0.0.1 is free.")


def answers(port: int) -> bool:
    """Return whether a program listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def tail(log: Path) -> str:
    """Return the beginnings of the last lines of a log, indented, with its name."""
    try:
        text = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        text = []
    return "\n".join(
        [f"The end of {log}:", *(f"    {clipped(line, TAIL_WIDTH)}" for line in text or ["(empty)"])]
    )


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
