"""Starting and stopping the supervisor, as seen from the outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from local_stack.airflow import USER
from local_stack.airflow_api import AirflowApi
from local_stack.folders import PROJECT, Folders, load_secrets
from local_stack.processes import StackError, tail
from local_stack.s3_server import S3Access
from local_stack.state import State, is_running, read_state

STOP_SECONDS = 60.0
CLEARING_SECONDS = 20.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Running:
    """A stack that answers."""

    folders: Folders
    state: State

    @property
    def api(self) -> AirflowApi:
        password = load_secrets(self.folders).airflow_password
        return AirflowApi(self.state.airflow_url, USER, password)

    @property
    def s3(self) -> S3Access:
        return self.state.s3(self.folders)


class Launch:
    """A supervisor of our own, on its way or running.

    Args:
        folders: Where everything is kept.
        owner: ``demo`` or ``up``.
        leased: Whether the stack ends with this process.
    """

    def __init__(self, folders: Folders, owner: str, *, leased: bool) -> None:
        folders.make()
        folders.state.unlink(missing_ok=True)
        self.folders = folders
        self._log = folders.logs / "supervisor.log"
        read_end, self._lease = os.pipe()
        command = [sys.executable, "-m", "local_stack", "supervise", str(folders.root), owner]
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen(
                [*command, str(read_end)] if leased else command,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C comes to us alone
                pass_fds=(read_end,) if leased else (),
            )
        os.close(read_end)

    def wait(self, say: Say) -> Running:
        """Wait until everything answers, and tell how far it is.

        Raises:
            StackError: A service did not start; the message has the end of its log.
        """
        told = ""
        while True:
            ended = self._process.poll() is not None
            state = read_state(self.folders)
            if state is not None and state.message not in ("", told) and state.status != "failed":
                told = state.message
                say(told)
            if state is not None and state.status == "ready":
                return Running(self.folders, state)
            if ended:
                raise self._end(state)
            time.sleep(0.2)

    def check(self) -> None:
        """Raise an error if the stack has ended."""
        if self._process.poll() is not None:
            raise self._end(read_state(self.folders))

    def _end(self, state: State | None) -> StackError:
        if state is not None and state.status == "failed":
            return StackError(state.message)
        return StackError(f"The supervisor ended with status {self._process.poll()}.\n{tail(self._log)}")

    def stop(self) -> None:
        """Stop everything, and wait for the end of it."""
        os.close(self._lease)
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def running(folders: Folders) -> Running | None:
    """The stack that runs, if one does and answers."""
    state = read_state(folders)
    if state is None or state.status != "ready" or not is_running(folders):
        return None
    return Running(folders, state)


def refuse_if_busy(folders: Folders) -> None:
    """Raise an error if a stack runs that belongs to somebody else or is not ready.

    One that has just stopped may take a moment to clear up: that is waited for.
    """
    end = time.monotonic() + CLEARING_SECONDS
    while is_running(folders):
        state = read_state(folders)
        # the watchdog of a supervisor that is gone holds its lock until all is cleared up
        gone = state is not None and not psutil.pid_exists(state.supervisor)
        if gone and time.monotonic() < end:
            time.sleep(0.1)
            continue
        whose = f"'{state.owner}' (supervisor {state.supervisor})" if state else "another command"
        raise StackError(f"A local stack of {whose} is starting, in use or stopping: wait, or 'make down'.")


@contextmanager
def local_stack(folders: Folders, say: Say = lambda line: None) -> Iterator[Running]:
    """A stack for the length of a ``with`` block; it ends with this process at the latest."""
    folders.make()
    refuse_if_busy(folders)
    launch = Launch(folders, "demo", leased=True)
    try:
        yield launch.wait(say)
    finally:
        launch.stop()


def stop_running(folders: Folders) -> bool:
    """Stop a stack that another process started.

    Returns:
        Whether there was one.

    Raises:
        StackError: It does not end.
    """
    if not is_running(folders):
        return False
    state = read_state(folders)
    if state is None:
        raise StackError(f"A stack runs, but {folders.state} does not say which process it is.")
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.kill(state.supervisor, number)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not is_running(folders):
                return True
            time.sleep(0.2)
    raise StackError(f"The supervisor {state.supervisor} does not end.")
