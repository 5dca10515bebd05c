"""State of the supervisor: a small file, and a lock that it holds while it runs."""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from local_stack.folders import VERSION, Folders, load_secrets, write_private_json
from local_stack.s3_server import S3Access


@dataclass(frozen=True)
class State:
    """State of a local stack; ports are 0 until they are known.

    Attributes:
        owner: ``demo`` or ``up``.
        supervisor: Process ID.
        status: ``starting``, ``ready``, ``failed`` or ``stopped``.
        message: The current step, or the reason of the failure.
    """

    owner: str
    supervisor: int
    status: str = "starting"
    message: str = ""
    airflow_port: int = 0
    s3_port: int = 0

    def now(self, status: str, message: str) -> State:
        return replace(self, status=status, message=message)

    def at(self, *, airflow_port: int, s3_port: int) -> State:
        return replace(self, airflow_port=airflow_port, s3_port=s3_port)

    @property
    def airflow_url(self) -> str:
        return f"http://127.0.0.1:{self.airflow_port}"

    def s3(self, folders: Folders) -> S3Access:
        secrets = load_secrets(folders)
        return S3Access(self.s3_port, secrets.s3_access_key, secrets.s3_secret_key)


def write_state(folders: Folders, state: State) -> None:
    write_private_json(folders.state, {"version": VERSION, **asdict(state)})


def read_state(folders: Folders) -> State | None:
    """Return the last written state, whether or not the stack runs."""
    try:
        found: dict[str, Any] = json.loads(folders.state.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return State(**{name: value for name, value in found.items() if name != "version"})


def is_running(folders: Folders) -> bool:
    """Return whether a supervisor runs."""
    try:
        with folders.lock.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
