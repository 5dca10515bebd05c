"""The process that owns all services: they run while it runs.

``demo`` and ``up`` start it. A demo also passes it a lease, the end of a pipe: when the demo ends for any
reason, the pipe breaks and the supervisor stops all services. If the supervisor itself is killed, the kernel
ends the services (on Linux), and a forked watchdog ends their sessions.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from typing import IO, NoReturn

import psutil

from local_stack.airflow import (
    USER,
    airflow_environment,
    prepare_airflow,
    start_airflow,
    start_storage,
    wait_for_airflow,
)
from local_stack.airflow_api import AirflowApi
from local_stack.folders import Folders, State, load_secrets, write_state
from local_stack.processes import (
    Service,
    StackError,
    adopt_orphans,
    free_port,
    kill_descendants,
    stop_together,
)

AIRFLOW_PORT = 8080
S3_PORT = 9000
LOCK_TRIES = 20
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ROUNDS = 20


class Services:
    """The started services in order; the S3 server is first."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.started: list[Service] = []
        self._watchdog = watchdog

    def add(self, service: Service) -> None:
        self.started.append(service)
        self._watchdog.watch(service.pid)


def supervise(folders: Folders, owner: str, lease: int | None) -> int:
    """Start the services and stay until a signal, the end of the lease, or the end of a service.

    Args:
        folders: Folders of the stack.
        owner: ``demo`` or ``up``.
        lease: Descriptor that becomes readable when the owner ends; None for no lease.

    Returns:
        Exit status.
    """
    for number in SIGNALS:
        signal.signal(number, _stop)
    adopt_orphans()
    state = State(owner=owner, supervisor=os.getpid())
    with ExitStack() as stack:
        stack.enter_context(_only_one(folders))
        services = Services(Watchdog())
        for _ in range(2):  # a signal may interrupt the first call
            stack.callback(_stop_all, services)
        try:
            state = _start(folders, state, services)
            _watch(services, lease)
        except StackError as error:
            write_state(folders, state.now("failed", str(error)))
            return 1
        except SystemExit:
            write_state(folders, state.now("stopped", ""))
            raise
    write_state(folders, state.now("stopped", ""))
    return 0


def _start(folders: Folders, state: State, services: Services) -> State:
    secrets = load_secrets(folders)
    write_state(folders, state.now("starting", "Starting the S3 server"))
    server, s3 = start_storage(folders, secrets, preferred_port=S3_PORT)
    services.add(server)
    state = state.at(s3_port=s3.port, airflow_port=free_port(AIRFLOW_PORT))
    env = airflow_environment(folders, secrets, s3, state.airflow_port)
    write_state(folders, state.now("starting", "Preparing Airflow's database"))
    prepare_airflow(folders, secrets, env)
    write_state(folders, state.now("starting", "Starting Airflow (15 to 40 s)"))
    airflow: list[Service] = []
    for service in start_airflow(folders, env, state.airflow_port):
        services.add(service)
        airflow.append(service)
    wait_for_airflow(AirflowApi(state.airflow_url, USER, secrets.airflow_password), airflow)
    write_state(folders, state.now("ready", "Airflow and the S3 server answer"))
    return state


def _watch(services: Services, lease: int | None) -> None:
    while True:
        waiting = [lease] if lease is not None else []
        readable, _, _ = select.select(waiting, [], [], 1.0)
        if readable:
            return
        for service in services.started:
            service.check()


def _stop_all(services: Services) -> None:
    """Stop Airflow's services together, then the S3 server that their tasks write to."""
    _ignore_signals()
    stop_together(services.started[1:])
    stop_together(services.started[:1])
    kill_descendants()


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _only_one(folders: Folders) -> IO[str]:
    """Take the lock, which the kernel releases when this process ends."""
    lock = folders.lock.open("w")
    for _ in range(LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        time.sleep(0.1)  # a process that checks whether we run holds the lock for a moment
    sys.exit("Another supervisor is running.")


def _stop(number: int, frame: object) -> NoReturn:
    _ignore_signals()  # one is enough
    sys.exit(128 + number)


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
