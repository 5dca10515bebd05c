"""What the page tells of DAG runs: the answer of a person at the gate, and graphs that were removed."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.models.hitl import HITLDetail
from airflow.models.xcom import XComModel
from graph_partitioning.operators.task_messages import task_progress
from graph_partitioning.page.dag_runs import FoundRun, RunKey, RunState, _add_task, _is_removed
from graph_partitioning.runs import PROGRESS_KEY


@pytest.mark.parametrize(
    ("by", "comment", "shown"),
    [
        ({"id": "1", "name": "bobby"}, "", "Approve by bobby"),
        ({"id": "1", "name": "bobby"}, "only once", "Approve by bobby: only once"),
        (None, "", "Approve"),
    ],
)
def test_an_answer_names_its_person_and_reason(by: dict[str, str] | None, comment: str, shown: str) -> None:
    question = HITLDetail(
        chosen_options=["Approve"],
        responded_at=datetime.now(UTC),
        responded_by=by,
        subject="?",
        params_input={"comment": comment},
    )
    row = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="gate",
        map_index=-1,
        operator="QualityGateOperator",
        start_date=None,
        trigger_timeout=None,
        state="success",
        HITLDetail=question,
        XComModel=None,
    )
    run = RunState(RunKey("d", "r"), "running")
    _add_task(run, row)
    assert run.answer == shown and run.done == run.tasks == 1


def test_the_page_has_the_last_line_of_progress_of_a_running_task() -> None:
    class Ti:
        def __init__(self) -> None:
            self.pushed: list[str] = []

        def xcom_push(self, key: str, value: str) -> None:
            assert key == PROGRESS_KEY
            self.pushed.append(value)
            raise ConnectionError("Airflow's API does not answer")

    ti = Ti()
    progress = task_progress({"ti": ti}, logging.getLogger("test"))  # type: ignore[arg-type, typeddict-item]
    progress._interval = 0.0
    with progress.step("scatter", 8, "edges") as advance:
        advance(2)
        advance(4)
    assert ti.pushed[-1] == "scatter: 6 of 8 edges (75 %)"
    row = SimpleNamespace(
        **{"dag_id": "d", "run_id": "r", "task_id": "convert.scatter", "map_index": 3, "operator": ""},
        **{"state": "running", "HITLDetail": None, "start_date": datetime.now(UTC)},
        XComModel=XComModel(value=XComModel.serialize_value(ti.pushed[-1])),
    )
    run = RunState(RunKey("d", "r"), "running")
    _add_task(run, row)
    assert run.progress == ["scatter: 6 of 8 edges (75 %)"]


def test_a_run_that_ended_after_its_graph_was_removed_is_shown() -> None:
    removal = datetime(2026, 5, 2, tzinfo=UTC)
    root = ("s3://bucket/small", None)

    def removed(state: str, ended: datetime | None, of: tuple[str, str | None] = root) -> bool:
        run = RunState(RunKey("d", "r"), state, created=removal - timedelta(days=1), ended=ended)
        return _is_removed(FoundRun(run, None, of), {root: removal})

    assert removed("failed", removal - timedelta(hours=1))
    assert not removed("success", removal + timedelta(hours=1))  # it waited, and made the graph again
    assert not removed("queued", None)
    assert not removed("success", removal - timedelta(hours=1), ("s3://bucket/other", None))
