"""How long stages of running runs take and are expected to take, from a database of Airflow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from graph_partitioning.page.dag_runs import Expected, RunKey, RunState, add_tasks
from graph_partitioning.page.graphs import Graph
from graph_partitioning.page.pace import add_expected, wall_times
from graph_partitioning.page.words import durations, paces
from graph_partitioning.runs import ESTIMATE_KEY
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

DAG = "partition_graph"
NOW = datetime.now(UTC)


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    import_all_models()  # tables name each other
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session


def add_run(
    session: Session, name: str, state: str, tasks: dict[str, tuple[str, float, float | None]]
) -> RunState:
    """Write a run with tasks: their state, and how many seconds ago they began and ended."""
    number = 1 + session.query(DagRun).count()
    key = {"dag_id": DAG, "run_id": name}
    values: dict[str, Any] = {"state": state, "span_status": "ended", "run_type": "manual", "conf": {}}
    run = {"id": number, **key, **values, "run_after": NOW, "start_date": NOW, "clear_number": 0}
    session.execute(DagRun.__table__.insert(), [run])
    for task_id, (task_state, began, ended) in tasks.items():
        of_task, _, index = task_id.partition("/")
        row = {
            **{"id": uuid4(), **key, "task_id": of_task, "map_index": int(index or -1), "state": task_state},
            **{"operator": "", "pool": "default_pool", "pool_slots": 1, "try_number": 1},
            "start_date": NOW - timedelta(seconds=began),
            "end_date": None if ended is None else NOW - timedelta(seconds=ended),
        }
        session.execute(TaskInstance.__table__.insert(), [row])
    return RunState(RunKey(DAG, name), state)


def estimate(session: Session, name: str, value: Any) -> None:
    of_task = {"dag_id": DAG, "run_id": name, "task_id": "validate", "map_index": -1, "dag_run_id": 1}
    row = {**of_task, "key": ESTIMATE_KEY, "value": XComModel.serialize_value(value), "timestamp": NOW}
    session.execute(XComModel.__table__.insert(), [row])


def graph_of(session: Session, *runs: RunState) -> Graph:
    graph = Graph("s3://graphs/a", None, runs={run.key: run for run in runs})
    add_tasks(session, runs)
    add_expected(session, [graph])
    return graph


FINISHED = {
    "validation.plan": ("success", 1000.0, 999.0),
    "validate": ("success", 990.0, 980.0),
    "convert.plan": ("success", 900.0, 890.0),
    "convert.gather/0": ("success", 880.0, 850.0),
    "convert.gather/1": ("success", 880.0, 775.0),
    "probe": ("skipped", 800.0, 800.0),
}
RUNNING = {
    "validate": ("success", 60.0, 50.0),
    "convert.plan": ("success", 40.0, 35.0),
    "convert.gather/0": ("running", 30.0, None),
    "convert.gather/1": ("running", 20.0, None),
}


def test_a_stage_took_as_long_as_from_its_first_task_to_its_last(session: Session) -> None:
    older = add_run(session, "older", "success", {"convert.plan": ("success", 9000.0, 1.0)})
    before = add_run(session, "before", "success", FINISHED)
    failed = add_run(session, "failed", "failed", {"convert.plan": ("success", 500.0, 1.0)})
    run = add_run(session, "now", "running", RUNNING)
    estimate(session, "now", {"convert": 7.0, "idmap": 3.0})
    graph_of(session, older, before, failed, run)
    assert run.expected == {
        "validate": Expected(20.0, False),
        "convert": Expected(125.0, False),
        "idmap": Expected(3.0, True),
    }
    (line,) = paces(run)
    so_far = re.fullmatch(r"convert: (?:(\d+) min )?(\d+) s so far, 2 min 05 s in the run before", line)
    assert so_far and 60 * int(so_far[1] or 0) + int(so_far[2]) >= 40


def test_the_times_of_a_run_are_in_the_order_in_which_its_stages_began(session: Session) -> None:
    run = add_run(session, "before", "success", {**FINISHED, "ingest": ("success", 1100.0, 1010.0)})
    found = wall_times(session, {run.key})[run.key]
    assert [*found] == ["ingest", "validate", "convert"]
    assert durations(found)[0] == ["ingest", "1 min 30 s"]


def test_a_first_run_has_the_estimate(session: Session) -> None:
    run = add_run(session, "now", "running", RUNNING)
    estimate(session, "now", {"convert": 90.2})
    graph_of(session, run)
    assert paces(run)[0].endswith(" so far, about 1 min 30 s by the estimate")


@pytest.mark.parametrize("value", [None, "soon", {"convert": "soon"}])
def test_without_either_there_is_the_time_so_far(session: Session, value: Any) -> None:
    run = add_run(session, "now", "running", RUNNING)
    if value is not None:
        estimate(session, "now", value)
    later = add_run(session, "later", "success", FINISHED)
    graph_of(session, run, later)
    assert [line.partition(": ")[0] for line in paces(run)] == ["convert"]
    assert paces(run)[0].endswith(" so far")


def test_a_run_that_waits_for_another_one_has_no_pace(session: Session) -> None:
    run = add_run(session, "now", "running", {"lock": ("up_for_reschedule", 30.0, None)})
    graph_of(session, run)
    run.locked = NOW
    assert run.running == ["lock"] and paces(run) == []
