"""Start, find and stop a supervisor: the commands ``up``, ``down`` and ``status``."""

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

from local_stack.airflow import INPUT_URI, OUTPUT_URI, USER
from local_stack.airflow_api import AirflowApi
from local_stack.example_graph import PACKAGES, is_there, upload_graph
from local_stack.folders import PROJECT, Folders, State, is_running, load_secrets, read_state
from local_stack.processes import StackError, tail
from local_stack.s3_server import S3Access

STOP_SECONDS = 60.0
CLEARING_SECONDS = 20.0
AGAIN = "To start it again: make up."

Say = Callable[[str], None]


@dataclass(frozen=True)
class Running:
    """A running stack."""

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
    """A supervisor that this process has started.

    Args:
        folders: Folders of the stack.
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
                start_new_session=True,  # so that only this process gets Ctrl-C
                pass_fds=(read_end,) if leased else (),
            )
        os.close(read_end)

    def wait(self, say: Say) -> Running:
        """Wait until all services answer, and print the progress.

        Raises:
            StackError: A service did not start; the message has the end of its log.
        """
        last = ""
        while True:
            ended = self._process.poll() is not None
            state = read_state(self.folders)
            if state is not None and state.message not in ("", last) and state.status != "failed":
                last = state.message
                say(last)
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
        """Stop all services, and wait for their end."""
        os.close(self._lease)
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def running(folders: Folders) -> Running | None:
    """Return the running stack, if there is one that answers."""
    state = read_state(folders)
    if state is None or state.status != "ready" or not is_running(folders):
        return None
    return Running(folders, state)


def refuse_if_busy(folders: Folders) -> None:
    """Raise an error if a stack runs that belongs to another command or is not ready.

    If a stack has just stopped, wait until it has cleaned up.
    """
    end = time.monotonic() + CLEARING_SECONDS
    while is_running(folders):
        state = read_state(folders)
        # the watchdog of a killed supervisor holds its lock until it has cleaned up
        gone = state is not None and not psutil.pid_exists(state.supervisor)
        if gone and time.monotonic() < end:
            time.sleep(0.1)
            continue
        whose = f"'{state.owner}' (supervisor {state.supervisor})" if state else "another command"
        raise StackError(
            f"A local stack of {whose} is starting, in use or stopping: wait, or run 'make down'."
        )


@contextmanager
def local_stack(folders: Folders, say: Say = lambda line: None) -> Iterator[Running]:
    """Run a stack for the length of a ``with`` block; it ends with this process at the latest."""
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
        raise StackError(f"A stack runs, but {folders.state} does not name its process.")
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.kill(state.supervisor, number)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not is_running(folders):
                return True
            time.sleep(0.2)
    raise StackError(f"The supervisor {state.supervisor} does not end.")


def up(folders: Folders) -> int:
    """Start all services and keep them running."""
    folders.make()
    found = running(folders)
    if found is None:
        refuse_if_busy(folders)
        launch = Launch(folders, "up", leased=False)
        try:
            found = launch.wait(print)
        except BaseException:
            launch.stop()
            raise
    if not is_there(PACKAGES, found.s3):
        upload_graph(PACKAGES, PACKAGES.write(folders), found.s3.settings())
    print(_how_to_use(found))
    return 0


def down(folders: Folders) -> int:
    """Stop the running services."""
    print("Stopping Airflow and the S3 server" if is_running(folders) else "Nothing is running.")
    if stop_running(folders):
        print("Stopped.")
    return 0


def status(folders: Folders) -> int:
    """Print which services run; the exit status is 3 if none does, as for system services."""
    found = running(folders)
    if found is not None:
        print(_how_to_use(found))
        return 0
    state = read_state(folders)
    if is_running(folders) and state is not None:
        print(f"Not ready ({state.owner}): {state.message}")
        return 0
    print(f"Nothing is running.{_why_it_ended(folders, state)}")
    return 3


def _why_it_ended(folders: Folders, state: State | None) -> str:
    """Return why the last stack ended, as a sentence; ``""`` if it was stopped or there was none."""
    if state is None or state.status == "stopped":
        return ""
    if state.status == "failed":
        return f" {AGAIN} The last stack ended with an error: {state.message}"
    killed = f"The last stack was killed while it was {state.status}."
    return f" {AGAIN} {killed} Its logs are in {_short(folders.logs)}."


def _how_to_use(found: Running) -> str:
    secrets = load_secrets(found.folders)
    state, root = found.state, found.folders.root
    return f"""
Airflow    {state.airflow_url}
Graphs     {state.airflow_url}/graph-partitioning/
           user {USER}, password {secrets.airflow_password}
S3 server  {found.s3.endpoint_url}, its files are in {_short(root / "s3")}
           keys are in {_short(found.folders.secrets)}
Logs       {_short(found.folders.logs)}

To partition a graph: in the browser, Dags > Partition a graph > Trigger. The form names the example
graph in {INPUT_URI}, which needs 'warn' for "On duplicate edges";
results go to {OUTPUT_URI}.
A graph of your own: make upload GRAPH=folder, again if it has grown
'make demo' uses this Airflow while it runs.
To stop: make down
"""


def _short(path: object) -> str:
    return str(path).removeprefix(f"{PROJECT}/")
