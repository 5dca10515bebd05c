"""Actions of a user of the running Airflow: trigger, wait, look at logs, XComs, links and pages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import requests
from graph_partitioning.runs import run_root

from local_stack.airflow import BUCKET, USER
from local_stack.airflow_api import AirflowApi
from local_stack.folders import Folders
from local_stack.s3_server import REGION, S3Access
from partition_ops.storage import open_store
from tests.graphs import Edges, Layout, SmallGraph, library
from tests.uploads import upload_folder

DAG_ID = "partition_graph"
REPARTITION = "repartition_graph"
TEXT_DAG_ID = "partition_text"
MANAGE = "manage_graph"
VIEWER = "viewer"  # a user who may read everything and change nothing
CONNECTION = "graph_store"
INPUT = f"s3://{BUCKET}/input/small"
BROKEN = f"s3://{BUCKET}/input/broken"
OUTPUT = f"s3://{BUCKET}/output"
ALERT = "hook"  # that the environment defines
ROW, VALUE = 2, 4321
RUN_SECONDS = 1200.0


def lineage_file(folders: Folders) -> Path:
    """Return the file with the events of OpenLineage, one a line."""
    return folders.logs / "lineage.jsonl"


@dataclass(frozen=True)
class Run:
    """A DAG run of ours."""

    run_id: str
    output_uri: str
    dag_id: str = DAG_ID

    @property
    def path(self) -> str:
        return f"dags/{self.dag_id}/dagRuns/{quote(self.run_id, safe='')}"

    @property
    def root(self) -> str:
        return run_root(self.output_uri, "small", self.run_id)


@dataclass(frozen=True)
class Site:
    """A running Airflow and S3 server."""

    folders: Folders
    api: AirflowApi
    s3: S3Access
    package: Path  # with the format of tests/format_plugin.py, installed for Airflow

    def password(self, user: str = USER) -> str:
        """The password of a user; Airflow makes up that of the viewer."""
        found: str = json.loads(self.folders.passwords.read_text())[user]
        return found

    def url(self, path: str) -> str:
        return self.api.base_url + path

    def add_connection(self, connection_id: str, endpoint_url: str) -> None:
        body = {
            "connection_id": connection_id,
            "conn_type": "aws",
            "login": self.s3.access_key,
            "password": self.s3.secret_key,
            "extra": f'{{"endpoint_url": "{endpoint_url}", "region_name": "{REGION}"}}',
        }
        self.call("POST", "connections", json=body)

    def change_connection(self, connection_id: str, endpoint_url: str) -> None:
        """Let a connection lead to another server."""
        extra = f'{{"endpoint_url": "{endpoint_url}", "region_name": "{REGION}"}}'
        body = {"connection_id": connection_id, "conn_type": "aws", "extra": extra}
        self.call("PATCH", f"connections/{connection_id}?update_mask=extra", json=body)

    def upload(self, graph: SmallGraph, uri: str) -> None:
        """Put a graph on S3, over what is there."""
        with (
            TemporaryDirectory(dir=self.folders.root) as folder,
            open_store(uri, self.s3.settings()) as store,
        ):
            upload_folder(graph.write(Path(folder)), store, last="metadata.json")

    def trigger(self, dag_id: str = DAG_ID, **params: Any) -> Run:
        """Trigger with the form's own values, but for the connection and what is given."""
        body = {"logical_date": None, "conf": {"storage_conn_id": CONNECTION, **params}}
        run = self.call("POST", f"dags/{dag_id}/dagRuns", json=body)
        return Run(run["dag_run_id"], params.get("output_uri", OUTPUT), dag_id)

    def repartition(self, graphs: str, **params: Any) -> Run:
        """Trigger a look at a list of graphs."""
        return self.trigger(REPARTITION, graphs=graphs, **params)

    def wait(self, run: Run, state: str) -> None:
        """Wait for the end of a run, which must be this one."""
        end = time.monotonic() + RUN_SECONDS
        while (found := self.api.run_state(run.dag_id, run.run_id)) in ("queued", "running"):
            if time.monotonic() > end:
                break
            time.sleep(0.5)
        assert found == state, self._troubles(run)

    def wait_for_task(self, run: Run, task_id: str, state: str) -> None:
        """Wait until a task of a run has this state."""

        def there() -> bool:
            states = {task.task_id: task.state for task in self.api.tasks(run.dag_id, run.run_id)}
            assert states.get(task_id) != "failed"
            return states.get(task_id) == state

        wait_until(there)

    def wait_for_question(self, run: Run, task_id: str) -> None:
        """Wait until a task asks a person, and the scheduler knows that its process has ended.

        An answer before that starts the task again; the scheduler then takes the end of the first process for
        that of the second one, marks the task for a retry, and the answer is lost.
        """
        self.wait_for_task(run, task_id, "awaiting_input")
        ended = f"TaskInstance Finished: dag_id={run.dag_id}, task_id={task_id}, run_id={run.run_id},"
        log = self.folders.logs / "airflow-scheduler.log"
        wait_until(lambda: ended in log.read_text(errors="replace"))

    def log(self, run: Run, task_id: str) -> list[dict[str, Any]]:
        answer = self.call("GET", f"{run.path}/taskInstances/{task_id}/logs/1?full_content=true")
        return [entry for entry in answer["content"] if isinstance(entry, dict)]

    def link(self, run: Run, task_id: str, map_index: int = -1, *, name: str = "Artifacts") -> str:
        """Return the URL of a button on a task's page."""
        found = self.call("GET", f"{run.path}/taskInstances/{task_id}/links?map_index={map_index}")
        return self.url(found["extra_links"][name])

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self.session().request(method, self.url(f"/api/v2/{path}"), timeout=600, **options)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def session(self, user: str = USER, *, cookie: bool = False) -> requests.Session:
        """Logged in as a program, or as a browser is after the login page."""
        session = requests.Session()
        session.trust_env = False
        answer = session.post(
            self.url("/auth/token"), json={"username": user, "password": self.password(user)}, timeout=600
        )
        token = answer.json()["access_token"]
        if cookie:
            session.cookies.set("_token", token)
        else:
            session.headers["Authorization"] = f"Bearer {token}"
        return session

    def _troubles(self, run: Run) -> str:
        """Tasks that have failed, wait for another try or still run, with what their logs say."""
        tasks = [t for t in self.api.tasks(run.dag_id, run.run_id) if t.state not in ("success", "none")]
        lines = [f"{t.name}: {t.state}\n{self.api.error_of(run.dag_id, run.run_id, t)}" for t in tasks]
        return "\n".join(lines)


def wait_until(ready: Callable[[], Any], *, seconds: float = RUN_SECONDS) -> Any:
    """Wait for a value that is true."""
    end = time.monotonic() + seconds
    while not (found := ready()):
        if time.monotonic() > end:
            raise TimeoutError(f"Not within {seconds:.0f} s")
        time.sleep(0.3)
    return found


def with_id_out_of_range() -> SmallGraph:
    """A graph that names an author who is not there."""
    graph = library(papers=120, layout=Layout("csv"))
    name = "author:writes:paper"
    edges = graph.edges[name]
    src = [*edges.src]
    src[ROW] = VALUE
    return replace(graph, edges={**graph.edges, name: Edges(src, edges.dst, edges.layout)})
