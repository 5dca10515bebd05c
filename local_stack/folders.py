"""Folders and secrets of the local stack, and the state of its supervisor: a small file, and a lock."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from local_stack.s3_server import S3Access

PROJECT = Path(__file__).resolve().parent.parent
VERSION = 1


@dataclass(frozen=True)
class Folders:
    """Folders of the local stack below one root, which only its owner can read.

    Attributes:
        root: ``.local`` in the project; tests use another.
    """

    root: Path = PROJECT / ".local"

    def make(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)
        for folder in (self.airflow, self.logs):
            folder.mkdir(exist_ok=True)

    @property
    def airflow(self) -> Path:
        return self.root / "airflow"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def s3(self) -> Path:
        return self.root / "s3"

    @property
    def state(self) -> Path:
        """State of the services."""
        return self.root / "state.json"

    @property
    def uploads(self) -> Path:
        """The folders of the user's graphs that were uploaded, by name."""
        return self.root / "uploads.json"

    @property
    def lock(self) -> Path:
        """The lock that the supervisor holds while it runs."""
        return self.root / "supervisor.lock"

    @property
    def passwords(self) -> Path:
        """The password file of Airflow's SimpleAuthManager."""
        return self.root / "airflow_passwords.json"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets.json"


@dataclass(frozen=True, repr=False)
class Secrets:
    """Random secrets of the local stack, in a file that only its owner can read."""

    s3_access_key: str
    s3_secret_key: str
    airflow_password: str
    fernet_key: str
    jwt_secret: str
    session_secret: str


def load_secrets(folders: Folders) -> Secrets:
    """Return the secrets of a local stack; they are generated at the first use."""
    if not folders.secrets.exists():
        made = Secrets(
            s3_access_key=secrets.token_hex(10),
            s3_secret_key=secrets.token_hex(20),
            airflow_password=secrets.token_urlsafe(12),
            fernet_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            jwt_secret=secrets.token_urlsafe(48),
            session_secret=secrets.token_urlsafe(48),
        )
        write_private_json(folders.secrets, {"version": VERSION, **vars(made)})
    found = json.loads(folders.secrets.read_text())
    found.pop("version")
    return Secrets(**found)


def write_private_json(path: Path, value: object) -> None:
    """Write a file that only its owner can read; it appears complete."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(value, stream, indent=2)
    partial.replace(path)


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
