"""DAG runs as Airflow's database knows them: the graph that each works on, its state, tasks and failure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import case, select, tuple_
from sqlalchemy.orm import Session

from graph_partitioning.page.lookup import PUBLISHING, SAME_TASK, TaskKey, checked_run
from graph_partitioning.runs import FAILURE_KEY, PROGRESS_KEY, XCOM_KEY, graph_root

VALIDATING = "ValidateGraphOperator"
WORKING = (PUBLISHING, VALIDATING, "IngestTablesOperator")  # they name the root of the run
ACTIVE = ("queued", "running")
DONE = ("success", "skipped")
NOW = ("running", "up_for_retry", "up_for_reschedule", "deferred")
LOG = "Its log has the reason."
MANAGING = "manage_graph"
TRIGGERS = {
    "cli": "command line",
    "operator": "another DAG",
    "rest_api": "page or REST API",
    "ui": "form",
    "timetable": "schedule",
    "asset": "asset",
    "backfill": "backfill",
}
COMMENT = "comment"  # param of the question of the gate
REPARTITIONS = {"repartition__": "changes found", "forced__": "forced"}  # by the start of their run IDs
AT_ONCE = 400  # runs in a query
TASK = (
    *(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index),
    *(TaskInstance.operator, TaskInstance.state),
)
RUN = (  # columns: whole objects would take as long as all the rest of the page
    *(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.run_type, DagRun.conf),
    *(DagRun.triggered_by, DagRun.triggering_user_name),
    *(DagRun.queued_at, DagRun.run_after, DagRun.start_date, DagRun.end_date),
)
# what a running task says of its progress, or why a task has failed
OF_STATE = case((TaskInstance.state == "running", PROGRESS_KEY), else_=FAILURE_KEY)


@dataclass(frozen=True)
class RunKey:
    """A DAG run."""

    dag_id: str
    run_id: str


@dataclass(frozen=True)
class Place:
    """Where a run reads and writes, from its params.

    Attributes:
        storage_conn_id: Airflow connection.
        input_uri: Root of the graph, or a file that is ingested.
        output_uri: Root of the outputs of all graphs.
        graph_name: The name that was asked for; ``""`` if the input says it.
    """

    storage_conn_id: str | None
    input_uri: str
    output_uri: str
    graph_name: str


class Expected(NamedTuple):
    """How long a stage is expected to take.

    Attributes:
        seconds: Wall time.
        estimated: Whether this is an estimate, and not the time that it took in the run before.
    """

    seconds: float
    estimated: bool


def stage_of(task_id: str) -> str:
    """Return the name of the stage of a task of `partition_graph`; a group of tasks is a stage."""
    first = task_id.partition(".")[0]
    return {"validation": "validate", "preparation": "prepare"}.get(first, first)


@dataclass
class RunState:
    """A DAG run that works on a graph.

    Attributes:
        key: The DAG run.
        state: Its state.
        trigger: What triggered it, and who.
        created: When it was triggered.
        started: When its first task began; None while it is queued.
        ended: When it ended; None while it runs.
        running: IDs of the tasks that run now, or wait.
        began: When the first task of each stage began.
        expected: How long stages are expected to take, as far as it is known.
        progress: The last lines of progress of the tasks that run now.
        done: Number of tasks that have ended well.
        tasks: Number of all tasks.
        waiting: The task that waits for a person's approval, if there is one.
        question: What it asks, and why.
        asked: When it began to wait.
        deadline: Until when it waits.
        quality: The task that wrote its quality page.
        answer: The answer of a person, who gave it, and why.
        locked: Since when it waits for another run of the graph.
        failure: The task that failed first, and why.
    """

    key: RunKey
    state: str
    trigger: str = ""
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    running: list[str] = field(default_factory=list)
    began: dict[str, datetime] = field(default_factory=dict)
    expected: dict[str, Expected] = field(default_factory=dict)
    progress: list[str] = field(default_factory=list)
    done: int = 0
    tasks: int = 0
    waiting: TaskKey | None = None
    question: tuple[str, str] = ("", "")
    asked: datetime | None = None
    deadline: datetime | None = None
    quality: TaskKey | None = None
    answer: str = ""
    locked: datetime | None = None
    failure: tuple[TaskKey, str] | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def label(self) -> str:
        """Its state in words."""
        if self.waiting:
            return "waits for approval"
        if self.locked and self.active:
            return "waits for another run"
        return {"success": "succeeded"}.get(self.state, self.state)

    @property
    def seconds(self) -> float | None:
        """Wall time until its end, or until now; None before it starts."""
        if self.started is None:
            return None
        return ((self.ended or datetime.now(UTC)) - self.started).total_seconds()


@dataclass
class FoundRun:
    """A DAG run, and what tells which graph it works on.

    Attributes:
        state: The run.
        place: Where it reads and writes; None if its DAG has no such params.
        root: URI of the root of the graph's runs, and the connection that reaches it; None if not known.
        validated: The task that validated its input, if it has begun.
        published: The task that published it, if it has.
    """

    state: RunState
    place: Place | None
    root: tuple[str, str | None] | None = None
    validated: TaskKey | None = None
    published: TaskKey | None = None


def find_runs(session: Session, dag_ids: Collection[str]) -> list[FoundRun]:
    """Return the runs of these DAGs that validate or publish a graph, in the order of their triggers.

    A run belongs to its graph from the moment that it is triggered: its params say where it reads and writes.
    If they do not name the graph, an earlier run of the same input and output does. Otherwise,
    `FoundRun.root` is None until `validate` has read the name.
    """
    tasks = session.execute(
        select(*TASK, XComModel.value)
        .outerjoin(XComModel, SAME_TASK & (XComModel.key == XCOM_KEY))
        .where(TaskInstance.dag_id.in_(dag_ids), TaskInstance.operator.in_(WORKING))
    ).all()
    rows = session.execute(
        select(*RUN)
        .where(DagRun.dag_id.in_({task.dag_id for task in tasks}))
        .order_by(DagRun.run_after, DagRun.id)
    )
    params = cache(lambda dag_id: _params(session, dag_id))
    runs = {RunKey(run.dag_id, run.run_id): run for run in rows}
    found = {
        key: FoundRun(_state(run), _place({**params(key.dag_id), **(run.conf or {})}))
        for key, run in runs.items()
    }
    worked = {RunKey(task.dag_id, task.run_id) for task in tasks}
    for task in tasks:
        one = found.get(RunKey(task.dag_id, task.run_id))
        value = None if task.value is None else XComModel.deserialize_value(task)
        run = None if value is None else checked_run(value, task.run_id)
        if one is None or run is None:
            continue
        one.root = (run.root.rpartition("/runs/")[0], run.storage_conn_id)
        key = TaskKey(task.dag_id, task.run_id, task.task_id, task.map_index)
        if task.operator == VALIDATING:
            one.validated = key
        elif task.operator == PUBLISHING and task.state == "success":
            one.published = key
    of_graphs = [one for key, one in found.items() if key in worked]
    _find_roots(of_graphs)
    removed = _removals(session)
    return [one for one in of_graphs if not _is_removed(one, removed)]


def _removals(session: Session) -> dict[tuple[str, str | None], datetime]:
    """Return when graphs were removed whole, by root and connection."""
    found = {}
    ended = select(DagRun).where(DagRun.dag_id == MANAGING, DagRun.state == "success").order_by(DagRun.id)
    for run in session.execute(ended).scalars():
        conf = run.conf or {}
        if conf.get("action") == "remove" and run.start_date is not None:
            uri = str(conf.get("graph_uri", "")).removeprefix("file://").rstrip("/")
            found[uri, conf.get("storage_conn_id") or None] = run.start_date
    return found


def _is_removed(run: FoundRun, removed: Mapping[tuple[str, str | None], datetime]) -> bool:
    """Return whether the graph of a run was removed after the end of the run."""
    when = None if run.root is None else removed.get(run.root)
    ended = run.state.ended or run.state.created
    return when is not None and ended is not None and ended < when and not run.state.active


def _find_roots(runs: list[FoundRun]) -> None:
    """Add the roots of runs that have not said them, as far as params and other runs tell them."""
    known = {run.place: run.root for run in runs if run.place and run.root}
    for run in runs:
        if run.root is None and run.place is not None:
            place = run.place
            if place in known:
                run.root = known[place]
            elif place.graph_name:
                run.root = (graph_root(place.output_uri, place.graph_name), place.storage_conn_id)


def run_conf(session: Session, key: RunKey) -> dict[str, Any] | None:
    """Return the params that a DAG run was triggered with; None if Airflow does not know it."""
    run = session.scalar(select(DagRun).where(DagRun.dag_id == key.dag_id, DagRun.run_id == key.run_id))
    return None if run is None else dict(run.conf or {})


def run_params(session: Session, key: RunKey) -> dict[str, Any]:
    """Return the params of a DAG run, with the defaults of its DAG."""
    return {**_params(session, key.dag_id), **(run_conf(session, key) or {})}


def _params(session: Session, dag_id: str) -> dict[str, Any]:
    """Return the defaults of the params of a DAG."""
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    return {} if dag is None else {name: dag.params[name] for name in dag.params}


def _place(params: Mapping[str, Any]) -> Place | None:
    given = {name: params.get(name) for name in ("input_uri", "output_uri")}
    if not all(isinstance(uri, str) and uri for uri in given.values()):
        return None
    return Place(
        params.get("storage_conn_id") or None,
        str(given["input_uri"]).rstrip("/"),
        str(given["output_uri"]).removeprefix("file://").rstrip("/"),
        str(params.get("graph_name") or ""),
    )


def _state(run: Any) -> RunState:
    kind = str(getattr(run.triggered_by, "value", run.triggered_by) or "")
    again = (how for start, how in REPARTITIONS.items() if run.run_id.startswith(start))
    how = next(again, TRIGGERS.get(kind, str(run.run_type)))
    who = run.triggering_user_name
    return RunState(
        RunKey(run.dag_id, run.run_id),
        str(run.state),
        f"{who}, {how}" if who else how,
        run.queued_at or run.run_after,
        run.start_date,
        run.end_date,
    )


def add_tasks(session: Session, runs: Iterable[RunState]) -> None:
    """Add to runs what their tasks do, what they ask, and why the first one failed."""
    of_key = {(run.key.dag_id, run.key.run_id): run for run in runs}
    keys = [*of_key]
    for begin in range(0, len(keys), AT_ONCE):
        some = tuple_(TaskInstance.dag_id, TaskInstance.run_id).in_(keys[begin : begin + AT_ONCE])
        rows = session.execute(
            select(*TASK, TaskInstance.start_date, TaskInstance.trigger_timeout, HITLDetail, XComModel)
            .outerjoin(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
            .outerjoin(XComModel, SAME_TASK & (XComModel.key == OF_STATE))
            .where(some)
            .order_by(TaskInstance.start_date)
        )
        for row in rows:
            _add_task(of_key[row.dag_id, row.run_id], row)


def answer_text(answer: str, who: str, comment: str) -> str:
    """Return the answer of a person as text."""
    return f"{answer}{f' by {who}' if who else ''}{f': {comment}' if comment else ''}"


def _add_task(run: RunState, task: Any) -> None:
    key = TaskKey(task.dag_id, task.run_id, task.task_id, task.map_index)
    run.tasks += 1
    run.done += task.state in DONE
    if task.start_date is not None:
        run.began.setdefault(stage_of(task.task_id), task.start_date)  # rows come in this order
    question = task.HITLDetail
    if question is not None and question.responded_at is not None:
        who = (question.responded_by or {}).get("name", "")
        chosen = ", ".join(question.chosen_options or ())
        run.answer = answer_text(chosen, who, str((question.params_input or {}).get(COMMENT) or ""))
        run.question = (question.subject, question.body or "")
    if task.operator == "ReportQualityOperator" and task.state == "success":
        run.quality = key
    if task.state == "failed":
        if run.failure is None:
            reason = _value(task)
            run.failure = (key, reason if isinstance(reason, str) else LOG)
    elif question is not None and question.responded_at is None and task.state not in DONE:
        run.waiting, run.question = key, (question.subject, question.body or "")
        run.asked, run.deadline = question.created_at, task.trigger_timeout
    elif task.state in NOW:
        run.running.append(task.task_id)
        if isinstance(line := _value(task), str):
            run.progress.append(line)
        if task.operator == "LockGraphOperator" and task.state == "up_for_reschedule":
            run.locked = task.start_date


def _value(task: Any) -> Any:
    """Return the value of the XCom that a row has beside its task; None if there is none."""
    return None if task.XComModel is None else XComModel.deserialize_value(task.XComModel)
