"""Where a DAG run writes, and what a task leaves in XCom so that it can be found again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

XCOM_KEY = "graph_run"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 120


def run_folder(run_id: str) -> str:
    """The run ID as the name of a folder; two run IDs never share one.

    Run IDs hold colons, plus signs and whatever a user typed. What a path, an S3 key and a URL would not
    all take becomes ``-``; a digest of the whole ID follows, so that what was lost cannot collide.
    """
    readable = _UNSAFE.sub("-", run_id).strip(".-")[:_LONGEST]
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest


def graph_root(output_uri: str, graph_name: str) -> str:
    """Root of everything that was published of one graph; ``latest.json`` is in it."""
    return f"{output_uri.rstrip('/')}/{graph_name}"


def run_root(output_uri: str, graph_name: str, run_id: str) -> str:
    """Root of what one DAG run writes for one graph."""
    return f"{graph_root(output_uri, graph_name)}/runs/{run_folder(run_id)}"


def is_run_root(root: str, run_id: str) -> bool:
    """Whether a root can only be that of this DAG run."""
    return root.rstrip("/").endswith(f"/runs/{run_folder(run_id)}")


@dataclass(frozen=True)
class GraphRun:
    """What a task leaves in XCom for the page with its artifacts: no secrets, no data.

    Attributes:
        root: URI of the run's root.
        record: Key of the task's record below the root; None while the task has not succeeded.
        storage_conn_id: ID of the Airflow connection that reaches it.
    """

    root: str
    record: str | None
    storage_conn_id: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
