"""The root of a DAG run, the XCom by which the page finds it, and what identifies the run in a lock."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts.layout import INGEST

if TYPE_CHECKING:
    from airflow.sdk import Context

XCOM_KEY = "graph_run"
FAILURE_KEY = "graph_failure"  # XCom with the problem of a failed task, for the page of all graphs
ESTIMATE_KEY = "graph_estimate"  # XCom with the estimated seconds of a run by stage
PROGRESS_KEY = "graph_progress"  # XCom with the last line of progress of a running task
AIRFLOW_ID = "graph_partitioning_airflow_id"
SETTLE_SECONDS = 1.0
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
    """Return whether a root can only be that of this DAG run, or of the graph that it has ingested."""
    return root.rstrip("/").removesuffix(f"/{INGEST}").endswith(f"/runs/{run_folder(run_id)}")


@dataclass(frozen=True)
class GraphRun:
    """The XCom of a task for the page with its artifacts: no secrets and no data.

    Attributes:
        root: URI of the run's root.
        record: Key of the task's record below the root; None until the task has succeeded.
        storage_conn_id: ID of the Airflow connection that reaches it.
        others: Keys of further records, if the task built several partitions or scattered several groups.
    """

    root: str
    record: str | None
    storage_conn_id: str | None
    others: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "others" or value}


def lock_holder(context: Context) -> dict[str, str]:
    """Return the identity of a DAG run in a lock; two Airflows may have runs with equal IDs."""
    ti = context["ti"]
    return {"airflow": _airflow_id(), "dag_id": ti.dag_id, "run_id": ti.run_id}


def _airflow_id() -> str:
    """Return an ID of this Airflow: a Variable, which the first task that needs it sets at random."""
    from airflow.sdk import Variable

    found = Variable.get(AIRFLOW_ID, default=None)
    if not found:
        Variable.set(AIRFLOW_ID, secrets.token_hex(8), description="Identifies this Airflow in lock.json")
        time.sleep(SETTLE_SECONDS)  # another task may set it at the same moment; the last one counts
        found = Variable.get(AIRFLOW_ID)
    return str(found)
