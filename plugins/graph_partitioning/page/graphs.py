"""The graphs of the page *Graphs*: from Airflow's database which ones, from their storage how good they are.

A user sees the graphs of the runs of DAGs that this user may read, and no others, even in the same bucket.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.page.lookup import PUBLISHING, SAME_TASK, TaskKey, checked_run, read_xcom
from graph_partitioning.runs import FAILURE_KEY, XCOM_KEY, run_folder
from partition_ops.artifacts.latest import latest_run
from partition_ops.errors import PartitionOpsError
from partition_ops.stages.publish.run_index import read_index, run_name
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads

VALIDATING = "ValidateGraphOperator"
ACTIVE = ("queued", "running")
DONE = ("success", "skipped")
READERS = 16  # graphs read at a time
Entry = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class RunKey:
    """A DAG run."""

    dag_id: str
    run_id: str


@dataclass
class RunState:
    """A DAG run that works on a graph, as Airflow knows it.

    Attributes:
        key: The DAG run.
        state: Its state.
        ended: When it ended, in ISO format; "" while it runs.
        running: IDs of the tasks that run now, or wait.
        done: Number of tasks that have ended well.
        tasks: Number of all tasks.
        waiting: The task that waits for a person's approval, if there is one.
        question: What it asks, and why.
        failure: The task that failed, and why.
    """

    key: RunKey
    state: str
    ended: str = ""
    running: list[str] = field(default_factory=list)
    done: int = 0
    tasks: int = 0
    waiting: TaskKey | None = None
    question: tuple[str, str] = ("", "")
    failure: tuple[TaskKey, str] | None = None


@dataclass
class Graph:
    """A graph that the user may see.

    Attributes:
        root: URI of the root of its runs.
        storage_conn_id: ID of the Airflow connection that reaches it.
        published: The tasks that published its runs, by name of the folder of the run.
        validated: The tasks that validated their inputs, likewise.
        runs: Its DAG runs.
        active: Those that are running or queued.
        last: The newest of them.
        failed: The same, if it failed.
        entries: Figures of the published runs, oldest first, as in ``index.json``.
        latest: Name of the folder of the run that ``latest.json`` names; "" if there is none.
        problem: Why these could not be read.
    """

    root: str
    storage_conn_id: str | None
    published: dict[str, TaskKey] = field(default_factory=dict)
    validated: dict[str, TaskKey] = field(default_factory=dict)
    runs: set[RunKey] = field(default_factory=set)
    active: list[RunState] = field(default_factory=list)
    last: RunState | None = None
    failed: RunState | None = None
    entries: list[Entry] = field(default_factory=list)
    latest: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        return self.root.rpartition("/")[2]

    @property
    def key(self) -> str:
        """The graph in URLs. It is looked up among the graphs that the user may see."""
        return hashlib.sha256(f"{self.storage_conn_id}|{self.root}".encode()).hexdigest()[:16]

    @property
    def good(self) -> list[Entry]:
        """The runs that are not broken."""
        return [entry for entry in self.entries if "broken" not in entry]

    @property
    def newest(self) -> Entry | None:
        """The run that ``latest.json`` names, or else the newest one."""
        named = [entry for entry in self.good if entry["run"] == self.latest]
        return next(reversed(named or self.good), None)

    def uri_of(self, entry: Entry) -> str:
        """Return the URI of a run."""
        return f"{self.root}/runs/{entry['run']}"


def visible_graphs(session: Session, dag_ids: set[str]) -> list[Graph]:
    """Return the graphs of the runs of these DAGs, by name, without their figures."""
    rows = session.execute(
        select(XComModel, TaskInstance.operator, TaskInstance.state)
        .join(TaskInstance, SAME_TASK)
        .where(
            XComModel.key == XCOM_KEY,
            XComModel.dag_id.in_(dag_ids),
            TaskInstance.operator.in_((PUBLISHING, VALIDATING)),
        )
        .order_by(XComModel.timestamp)
    )
    graphs: dict[tuple[str, str | None], Graph] = {}
    for row, operator, state in rows:
        run = checked_run(XComModel.deserialize_value(row), row.run_id)
        if run is None:
            continue
        root = run.root.rpartition("/runs/")[0]
        graph = graphs.setdefault((root, run.storage_conn_id), Graph(root, run.storage_conn_id))
        graph.runs.add(RunKey(row.dag_id, row.run_id))
        task = TaskKey(row.dag_id, row.run_id, row.task_id, row.map_index)
        if operator == VALIDATING:
            graph.validated[run_folder(row.run_id)] = task
        elif state == "success":
            graph.published[run_folder(row.run_id)] = task
    return sorted(graphs.values(), key=lambda graph: (graph.name, graph.root))


def add_states(session: Session, graphs: Iterable[Graph]) -> None:
    """Add what runs now, and what failed last, to graphs."""
    by_run = {key: graph for graph in graphs for key in graph.runs}
    dag_ids = {key.dag_id for key in by_run}
    rows = session.execute(
        select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date)
        .where(DagRun.dag_id.in_(dag_ids))
        .order_by(DagRun.run_after)
    )
    newest: dict[str, RunState] = {}
    for dag_id, run_id, state, ended in rows:
        graph = by_run.get(RunKey(dag_id, run_id))
        if graph is None:
            continue
        when = ended.isoformat(timespec="seconds") if ended else ""
        run = newest[graph.key] = RunState(RunKey(dag_id, run_id), str(state), when)
        if state in ACTIVE:
            graph.active.append(run)
    for graph in graphs:
        graph.last = newest.get(graph.key)
        graph.failed = graph.last if graph.last is not None and graph.last.state == "failed" else None
        for run in [*graph.active, *([graph.failed] if graph.failed else [])]:
            _add_tasks(session, run)


def state_of(session: Session, key: RunKey) -> RunState | None:
    """Return the state of a DAG run, or None if Airflow has none of this ID."""
    found = session.scalar(select(DagRun).where(DagRun.dag_id == key.dag_id, DagRun.run_id == key.run_id))
    if found is None:
        return None
    state = RunState(key, str(found.state))
    _add_tasks(session, state)
    return state


def _add_tasks(session: Session, run: RunState) -> None:
    of_run = (TaskInstance.dag_id == run.key.dag_id, TaskInstance.run_id == run.key.run_id)
    tasks = session.execute(
        select(
            TaskInstance.task_id,
            TaskInstance.map_index,
            TaskInstance.state,
            HITLDetail.ti_id,
            HITLDetail.subject,
            HITLDetail.body,
        )
        .outerjoin(HITLDetail, (HITLDetail.ti_id == TaskInstance.id) & HITLDetail.responded_at.is_(None))
        .where(*of_run)
        .order_by(TaskInstance.start_date)
    ).all()
    run.tasks = len(tasks)
    run.done = sum(task.state in DONE for task in tasks)
    for task in tasks:
        key = TaskKey(run.key.dag_id, run.key.run_id, task.task_id, task.map_index)
        if task.ti_id is not None and task.state not in (*DONE, "failed"):
            run.waiting, run.question = key, (task.subject, task.body or "")
        elif task.state in ("running", "up_for_retry", "up_for_reschedule", "deferred"):
            run.running.append(task.task_id)
        elif task.state == "failed" and run.failure is None:
            reason = read_xcom(session, key, FAILURE_KEY)
            run.failure = (key, reason if isinstance(reason, str) else "Its log has the reason.")


def add_figures(graphs: Iterable[Graph]) -> None:
    """Read the figures of the published runs of graphs; a graph that cannot be read says why."""
    by_place: dict[tuple[str | None, str], list[Graph]] = defaultdict(list)
    for graph in graphs:
        by_place[graph.storage_conn_id, graph.root.rpartition("/")[0]].append(graph)
    with ExitStack() as stack:
        work: list[tuple[Graph, Store]] = []
        for (conn_id, place), members in by_place.items():
            try:  # graphs with the same root share a connection
                store = stack.enter_context(GraphStorageHook(conn_id).open(place))
            except PartitionOpsError as error:
                for graph in members:
                    graph.problem = error.summary()
                continue
            work += [(graph, store.child(graph.name)) for graph in members]

        def read(one: tuple[Graph, Store]) -> None:
            graph, store = one
            try:
                graph.entries = read_index(store)
                graph.latest = run_name(latest_run(store) or "")
            except PartitionOpsError as error:
                graph.problem = error.summary()

        for _ in map_in_threads(read, work, workers=READERS):
            pass


def with_run(graph: Graph, name: str, use: Callable[[Store], Result]) -> Result:
    """Call a function with the store of a published run of a graph.

    Raises:
        KeyError: The graph has no such run.
        PartitionOpsError: As the function raises it, or the storage cannot be reached.
    """
    if name not in {entry["run"] for entry in graph.entries}:
        raise KeyError(name)
    with GraphStorageHook(graph.storage_conn_id).open(f"{graph.root}/runs/{name}") as store:
        return use(store)


def flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested options as text by dotted name."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = "" if value is None else str(value)
    return found
