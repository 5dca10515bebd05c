"""Roots of runs, from Airflow's database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from graph_partitioning.runs import XCOM_KEY, GraphRun, is_run_root

PUBLISHING = "PublishRunOperator"
LISTED = 50


@dataclass(frozen=True)
class TaskKey:
    """A task instance, as in the URL of its page."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


@dataclass(frozen=True)
class PublishedRun:
    """A line of the list of published runs."""

    task: TaskKey
    root: str
    when: str

    @property
    def graph_name(self) -> str:
        return self.root.split("/")[-3]


def graph_run(session: Session, task: TaskKey) -> GraphRun | None:
    """Return the XCom of the task, if its root can only be that of this DAG run.

    Users with the permission can edit XComs. The check keeps the page from reading other files after such an
    edit.
    """
    value = session.scalar(
        select(XComModel).where(
            XComModel.dag_id == task.dag_id,
            XComModel.run_id == task.run_id,
            XComModel.task_id == task.task_id,
            XComModel.map_index == task.map_index,
            XComModel.key == XCOM_KEY,
        )
    )
    return None if value is None else _checked(XComModel.deserialize_value(value), task.run_id)


def tasks_of_run(session: Session, dag_id: str, run_id: str) -> list[TaskKey]:
    """Return the tasks of a DAG run that have a page, in the order in which they started."""
    rows = session.execute(
        select(TaskInstance.task_id, TaskInstance.map_index)
        .join(
            XComModel,
            (XComModel.dag_id == TaskInstance.dag_id)
            & (XComModel.run_id == TaskInstance.run_id)
            & (XComModel.task_id == TaskInstance.task_id)
            & (XComModel.map_index == TaskInstance.map_index),
        )
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, XComModel.key == XCOM_KEY)
        .order_by(TaskInstance.start_date, TaskInstance.task_id, TaskInstance.map_index)
    )
    return [TaskKey(dag_id, run_id, task_id, map_index) for task_id, map_index in rows]


def published_runs(session: Session, dag_ids: set[str]) -> list[PublishedRun]:
    """Return the newest published runs of these DAGs."""
    rows = session.scalars(
        select(XComModel)
        .join(
            TaskInstance,
            (XComModel.dag_id == TaskInstance.dag_id)
            & (XComModel.run_id == TaskInstance.run_id)
            & (XComModel.task_id == TaskInstance.task_id)
            & (XComModel.map_index == TaskInstance.map_index),
        )
        .where(
            XComModel.key == XCOM_KEY,
            XComModel.dag_id.in_(dag_ids),
            TaskInstance.operator == PUBLISHING,
            TaskInstance.state == "success",
        )
        .order_by(XComModel.timestamp.desc())
        .limit(LISTED)
    )
    listed = []
    for row in rows:
        run = _checked(XComModel.deserialize_value(row), row.run_id)
        if run is not None:
            key = TaskKey(row.dag_id, row.run_id, row.task_id, row.map_index)
            listed.append(PublishedRun(key, run.root, f"{row.timestamp:%Y-%m-%d %H:%M:%S} UTC"))
    return listed


def _checked(value: Any, run_id: str) -> GraphRun | None:
    try:
        run = GraphRun(**value)
    except TypeError:
        return None
    return run if isinstance(run.root, str) and is_run_root(run.root, run_id) else None
