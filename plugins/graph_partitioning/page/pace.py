"""How long the stages of runs take, and how long the run before or the estimate says they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from graph_partitioning.page.dag_runs import AT_ONCE, Expected, RunKey, RunState, stage_of
from graph_partitioning.page.graphs import Graph
from graph_partitioning.runs import ESTIMATE_KEY

Spans = dict[RunKey, dict[str, float]]
"""Seconds of stages by run."""


def add_expected(session: Session, graphs: Iterable[Graph]) -> None:
    """Add to running runs of graphs how long their stages are expected to take; their tasks are known.

    It is the wall time in the run before, the newest one that succeeded, from the begin of the first task of
    the stage to the end of its last one. Stages that were not in that run, such as those of a first run, have
    the estimate of ``validate``.
    """
    before = {run.key: (run, earlier) for graph in graphs for run, earlier in _running(graph)}
    spans = wall_times(session, {earlier for _, earlier in before.values() if earlier})
    estimates = _estimates(session, [*before])
    for key, (run, earlier) in before.items():
        took = spans.get(earlier, {}) if earlier else {}
        run.expected = {
            **{stage: Expected(seconds, True) for stage, seconds in estimates.get(key, {}).items()},
            **{stage: Expected(seconds, False) for stage, seconds in took.items()},
        }


def _running(graph: Graph) -> Iterator[tuple[RunState, RunKey | None]]:
    """Yield the running runs of a graph, each with the newest run before it that succeeded."""
    earlier = None
    for run in graph.runs.values():
        if run.state == "running" and run.running:
            yield run, earlier
        if run.state == "success":
            earlier = run.key


def wall_times(session: Session, keys: set[RunKey]) -> Spans:
    """Return the wall time of the stages of runs, in the order in which they began.

    It is the time from the start of the first task of a stage to the end of its last one; a stage that failed
    has it, too.
    """
    rows = _rows(
        session,
        keys,
        select(
            *(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id),
            *(TaskInstance.start_date, TaskInstance.end_date),
        )
        .where(TaskInstance.state.in_(("success", "failed")))
        .order_by(TaskInstance.start_date),
        (TaskInstance.dag_id, TaskInstance.run_id),
    )
    ends: dict[tuple[RunKey, str], tuple[datetime, datetime]] = {}
    for row in rows:
        if row.start_date and row.end_date:
            one = RunKey(row.dag_id, row.run_id), stage_of(row.task_id)
            first, last = ends.get(one, (row.start_date, row.end_date))
            ends[one] = min(first, row.start_date), max(last, row.end_date)
    found: Spans = {}
    for (key, stage), (first, last) in ends.items():
        found.setdefault(key, {})[stage] = (last - first).total_seconds()
    return found


def _estimates(session: Session, keys: Sequence[RunKey]) -> Spans:
    """Return the estimates of runs, as far as their ``validate`` has made one."""
    rows = _rows(
        session,
        keys,
        select(XComModel).where(XComModel.key == ESTIMATE_KEY),
        (XComModel.dag_id, XComModel.run_id),
    )
    found: Spans = {}
    for (row,) in rows:
        value = XComModel.deserialize_value(row)
        if isinstance(value, Mapping):  # users with the permission can edit XComs
            seconds = {str(stage): one for stage, one in value.items() if isinstance(one, int | float)}
            found[RunKey(row.dag_id, row.run_id)] = seconds
    return found


def _rows(session: Session, keys: Iterable[RunKey], query: Any, columns: tuple[Any, Any]) -> Iterator[Any]:
    """Yield the rows of a query for some runs."""
    wanted = [(key.dag_id, key.run_id) for key in keys]
    for begin in range(0, len(wanted), AT_ONCE):
        yield from session.execute(query.where(tuple_(*columns).in_(wanted[begin : begin + AT_ONCE])))
