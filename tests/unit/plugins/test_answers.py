"""The answer of a person at the gate, as the page shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.models.hitl import HITLDetail
from graph_partitioning.page.dag_runs import RunKey, RunState, _add_task


@pytest.mark.parametrize(
    ("by", "shown"), [({"id": "1", "name": "bobby"}, "Approve by bobby"), (None, "Approve")]
)
def test_an_answer_names_its_person(by: dict[str, str] | None, shown: str) -> None:
    question = HITLDetail(
        chosen_options=["Approve"], responded_at=datetime.now(UTC), responded_by=by, subject="?"
    )
    row = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="gate",
        map_index=-1,
        operator="QualityGateOperator",
        state="success",
        HITLDetail=question,
        XComModel=None,
    )
    run = RunState(RunKey("d", "r"), "running")
    _add_task(run, row)
    assert run.answer == shown and run.done == run.tasks == 1
