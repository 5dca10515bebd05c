"""The root of a DAG run, and the XCom by which the page finds it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

XCOM_KEY = "graph_run"
FAILURE_KEY = "graph_failure"  # XCom with the problem of a failed task, for the page of all graphs
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 120


def run_folder(run_id: str) -> str:
    """Return the name of the folder of a run ID; two run IDs never share one.

    Run IDs contain colons, plus signs and anything that a user typed. Characters that are not allowed in a
    path, an S3 key and a URL become ``-``. A digest of the whole ID follows, so that no two IDs
    have the same name.
    """
    readable = _UNSAFE.sub("-", run_id).strip(".-")[:_LONGEST]
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest


def graph_root(output_uri: str, graph_name: str) -> str:
    """Return the root of a graph's runs, which has ``latest.json``."""
    return f"{output_uri.rstrip('/')}/{graph_name}"


def run_root(output_uri: str, graph_name: str, run_id: str) -> str:
    """Return the root of one DAG run for one graph."""
    return f"{graph_root(output_uri, graph_name)}/runs/{run_folder(run_id)}"


def is_run_root(root: str, run_id: str) -> bool:
    """Return whether a root can only be that of this DAG run."""
    return root.rstrip("/").endswith(f"/runs/{run_folder(run_id)}")


@dataclass(frozen=True)
class GraphRun:
    """The XCom of a task for the page with its artifacts: no secrets and no data.

    Attributes:
        root: URI of the run's root.
        record: Key of the task's record below the root; None until the task has succeeded.
        storage_conn_id: ID of the Airflow connection that reaches it.
    """

    root: str
    record: str | None
    storage_conn_id: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
