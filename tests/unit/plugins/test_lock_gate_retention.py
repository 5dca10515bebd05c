"""The operators around a run: lock, gate, retention and the look for changes."""

from __future__ import annotations

import runpy
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    TaskAwaitingInput,
)
from graph_partitioning.operators.gate import QualityGateOperator
from graph_partitioning.operators.ingest import IngestTablesOperator
from graph_partitioning.operators.lock import LockGraphOperator, ReleaseGraphOperator, RemoveScratchOperator
from graph_partitioning.operators.quality import ReportQualityOperator
from graph_partitioning.operators.repartition import LookForChangesOperator
from graph_partitioning.operators.retain import RetainRunsOperator
from graph_partitioning.operators.validate import RevalidateGraphOperator, ValidateGraphOperator
from graph_partitioning.options import run_config
from graph_partitioning.runs import run_folder, run_root

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import holding
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.chunked.metadata import load_metadata
from partition_ops.formats.parmetis.graph_store import as_graph
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.stages.publish.run_index import read_index
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.storage import Store, open_store
from tests.graphs import Layout, library
from tests.tables import ITEMS, SHOP, write_shop

DAGS = Path(__file__).parents[3] / "dags"


class TaskInstance:
    """A task of a DAG run, in an Airflow that knows the states of some runs."""

    dag_id = "partition_graph"

    def __init__(self, run_id: str, states: dict[str, str] | None = None, waits_since: Any = None) -> None:
        self.run_id, self.states, self.waits_since = run_id, states or {}, waits_since
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def get_first_reschedule_date(self, context: Any) -> Any:
        return self.waits_since

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return self.states.get(run_id, "running")

    def run(self, operator: Any) -> Any:
        return operator.execute({"ti": self, "task_instance": self})


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "here")
    return {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}


def lock(where: dict[str, Any], ti: TaskInstance, **options: Any) -> Any:
    return ti.run(LockGraphOperator(task_id="lock", run_id=ti.run_id, **where, **options))


def release(where: dict[str, Any], ti: TaskInstance, *, published: bool = False) -> None:
    operator = ReleaseGraphOperator(task_id="release", run_id=ti.run_id, **where)
    with nullcontext() if published else pytest.raises(AirflowFailException, match="Nothing was published"):
        ti.run(operator)


def root(where: dict[str, Any]) -> Store:
    return open_store(f"{where['output_uri']}/small")


def finished_run(where: dict[str, Any], run_id: str) -> Store:
    """A published run."""
    source = as_graph(open_store(where["input_uri"]))
    run = open_store(run_root(where["output_uri"], load_metadata(source).graph_name, run_id))
    held = read_lock(root(where))
    with nullcontext() if held is None else holding(root(where), held["holder"], run):
        run_job(RunConfig(num_parts=2, engine="random"), source, run)
        publish_run(PublishConfig(run_id=run_id), source, run, latest=run.above(2))
    return run


def test_a_second_run_waits_until_the_first_has_released_the_graph(where: dict[str, Any]) -> None:
    one, two = TaskInstance("one"), TaskInstance("two")
    assert lock(where, one) == {"latest": None}
    with pytest.raises(AirflowRescheduleException) as waits:
        lock(where, two, wait=timedelta(minutes=3))
    ahead = waits.value.reschedule_date - datetime.now(UTC)
    assert timedelta(minutes=2) < ahead <= timedelta(minutes=3)
    release(where, two)  # as the teardown of a run that never got the lock would
    with pytest.raises(AirflowRescheduleException):
        lock(where, two)
    release(where, one)
    assert lock(where, two) == {"latest": None}


def test_a_run_that_has_published_is_released_without_an_error(where: dict[str, Any]) -> None:
    ti = TaskInstance("one")
    lock(where, ti)
    finished_run(where, "one")
    release(where, ti, published=True)
    assert read_lock(root(where)) is None
    release(where, ti, published=True)  # it is cleared, and the lock is gone


def validate(where: dict[str, Any], run_id: str, cls: Any = ValidateGraphOperator, **options: Any) -> Any:
    ti = TaskInstance(run_id)
    return ti.run(cls(task_id="validate", run_id=run_id, data_docs=False, **where, **options))


def test_a_graph_that_changes_while_its_run_waits_is_validated_again(where: dict[str, Any]) -> None:
    assert validate(where, "one")["skipped"] is False
    lock(where, TaskInstance("one"))
    assert validate(where, "one", RevalidateGraphOperator)["skipped"] is True
    library(papers=60, layout=Layout("csv")).write(Path(where["input_uri"]))
    assert validate(where, "one", RevalidateGraphOperator)["skipped"] is False
    report = root(where).read_json(f"runs/{run_folder('one')}/validation/report.json")
    assert report["num_nodes"]["paper"] == 60
    broken = Path(where["input_uri"]) / "metadata.json"
    broken.write_text(broken.read_text().replace("60", "59"))
    with pytest.raises(AirflowFailException, match="checks failed"):
        validate(where, "one", RevalidateGraphOperator)


def test_another_input_replaces_a_graph_only_if_it_may(where: dict[str, Any], tmp_path: Path) -> None:
    ti = TaskInstance("one")
    lock(where, ti)
    finished_run(where, "one")
    release(where, ti, published=True)
    assert validate({**where, "input_uri": f"{where['input_uri']}/"}, "two")
    other = {**where, "input_uri": str(library(papers=9).write(tmp_path / "other"))}
    with pytest.raises(AirflowFailException, match=f"of another input.*replace_input.*{tmp_path}/other"):
        validate(other, "three")
    assert validate(other, "three", replace_input="true")
    root(where).delete([f"runs/{run_folder('one')}/{layout.BEGINNING}"])  # as of an earlier version
    with pytest.raises(AirflowFailException, match=f"of another input.*{where['input_uri']}"):
        validate(other, "four")


def test_tables_replace_a_graph_only_if_they_may(where: dict[str, Any], tmp_path: Path) -> None:
    ti = TaskInstance("one")
    lock(where, ti)
    finished_run(where, "one")
    tables = write_shop(tmp_path / "tables", graph=SHOP.replace("graph_name: shop", "graph_name: small"))
    named = {**where, "input_uri": str(tables / "graph.yaml")}
    operator = IngestTablesOperator(task_id="ingest", run_id="two", **named)
    with pytest.raises(AirflowFailException, match="of another input"):
        TaskInstance("two").run(operator)
    assert not any(True for _ in root(where).list(f"runs/{run_folder('two')}/ingest/nodes"))


def test_tables_that_change_while_their_run_waits_are_ingested_again(
    where: dict[str, Any], tmp_path: Path
) -> None:
    graph = SHOP.replace("graph_name: shop", "graph_name: small")
    tables = write_shop(tmp_path / "tables", graph=graph)
    where = {**where, "input_uri": str(tables / "graph.yaml")}

    def ingested(run_id: str, cls: Any) -> tuple[bool, bytes]:
        validate(where, run_id, cls, on_defect={"duplicate_edges": "warn"})
        folder = f"runs/{run_folder(run_id)}/"
        written = root(where).read_bytes(f"{folder}ingest/records/ingest.json")
        report = root(where).read_json(f"{folder}validation/report.json")
        return report["num_nodes"]["item"] > len(ITEMS), written

    TaskInstance("one").run(IngestTablesOperator(task_id="ingest", run_id="one", **where))
    first = ingested("one", ValidateGraphOperator)
    lock(where, TaskInstance("one"))
    assert ingested("one", RevalidateGraphOperator) == first  # neither is done again
    write_shop(tables, graph=graph, items=[*ITEMS, {**ITEMS[0], "sku": "late"}])
    grown, _ = ingested("one", RevalidateGraphOperator)
    assert grown and not first[0]


def test_it_does_not_wait_for_ever(where: dict[str, Any]) -> None:
    lock(where, TaskInstance("one"))
    late = TaskInstance("two", waits_since=datetime.now(UTC) - timedelta(hours=2))
    with pytest.raises(AirflowFailException, match="run id one"):
        lock(where, late, patience=timedelta(hours=1))


@pytest.mark.parametrize("state", ["failed", "success"])
def test_the_lock_of_a_run_that_has_ended_is_taken_over(where: dict[str, Any], state: str) -> None:
    lock(where, TaskInstance("one"))
    lock(where, TaskInstance("two", {"one": state}))
    assert root(where).read_json(layout.LOCK)["holder"]["run_id"] == "two"


def test_of_two_airflows_with_equal_run_ids_one_works_on_a_graph(
    where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def retain() -> Any:
        return TaskInstance("one").run(RetainRunsOperator(task_id="retain", run_id="one", keep="1", **where))

    lock(where, TaskInstance("one"))
    held = root(where).read_json(layout.LOCK)
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "there")
    with pytest.raises(AirflowRescheduleException):
        lock(where, TaskInstance("one", {"one": "failed"}))  # a run of this Airflow, which has not the lock
    with pytest.raises(AirflowFailException, match="same ID in another Airflow"):
        TaskInstance("one").run(ValidateGraphOperator(task_id="validate", run_id="one", **where))
    with pytest.raises(AirflowFailException, match="is not held by airflow there"):
        retain()
    release(where, TaskInstance("one"))
    assert root(where).read_json(layout.LOCK) == held
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "here")
    with pytest.raises(AirflowFailException, match=r"no latest\.json"):  # it has the lock
        retain()


def test_a_run_that_could_not_be_published_any_more_does_not_begin(where: dict[str, Any]) -> None:
    one = TaskInstance("one")
    lock(where, one)
    release(where, one)
    two = TaskInstance("two")
    lock(where, two)
    finished_run(where, "two")
    release(where, two, published=True)
    with pytest.raises(AirflowFailException, match="Another run was published"):
        lock(where, one)  # as when it is cleared
    assert not root(where).exists(layout.LOCK)


def test_the_history_of_a_published_run_goes_on_unless_it_is_damaged(where: dict[str, Any]) -> None:
    one, two = finished_run(where, "one"), open_store(run_root(where["output_uri"], "small", "two"))
    lock(where, TaskInstance("two"))
    quality = ReportQualityOperator(task_id="quality", run_id="two", **where)
    with quality.open_published(two) as previous:
        assert previous is not None and previous.uri == one.uri
    one.write_json(layout.QUALITY_HISTORY, {**one.read_json(layout.QUALITY_HISTORY), "graph_name": "g"})
    with quality.open_published(two) as previous:
        assert previous is None


def test_scratch_goes_and_the_rest_stays(where: dict[str, Any]) -> None:
    run = open_store(run_root(where["output_uri"], "small", "one"))
    run.write_bytes("scratch/convert/plan.json", b"{}")
    run.write_bytes(layout.KEPT_TRAINING, b"{}")  # quality, which runs beside, reads it
    run.write_bytes("prepare/graph.parhip", b"x")
    TaskInstance("one").run(RemoveScratchOperator(task_id="scratch", run_id="one", **where))
    assert [entry.key for entry in run.list()] == ["prepare/graph.parhip", layout.KEPT_TRAINING]


def gate(where: dict[str, Any], **options: Any) -> QualityGateOperator:
    return QualityGateOperator(task_id="gate", run_id="one", **where, **options)


def test_the_gate_fails_what_is_worse_than_allowed(where: dict[str, Any]) -> None:
    finished_run(where, "one")
    ti = TaskInstance("one")
    assert ti.run(gate(where, max_edge_cut="", max_imbalance="9", max_moved="0")) is None
    with pytest.raises(AirflowFailException, match=r"edge cut 0\.\d+, at most 0\.01 allowed"):
        ti.run(gate(where, max_edge_cut="0.01", approval="False"))


def test_the_gate_asks_a_person_who_may_refuse(
    where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **detail: asked.update(detail)
    )
    finished_run(where, "one")
    ti = TaskInstance("one")
    ti.id = "some"  # type: ignore[attr-defined]
    operator = gate(where, max_edge_cut="0.01", approval="True", approval_hours="2")
    with pytest.raises(TaskAwaitingInput) as waits:
        ti.run(operator)
    assert waits.value.timeout == timedelta(hours=2)
    assert "at most 0.01 allowed" in asked["body"]
    answer = {
        "params_input": {"comment": "once"},
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"name": "ann"},
    }
    for choice in (ApprovalOperator.APPROVE, ApprovalOperator.REJECT):
        event = {**answer, "chosen_options": [choice]}
        if choice == ApprovalOperator.APPROVE:
            assert operator.execute_complete({}, event) == {"approved_by": {"name": "ann"}}  # type: ignore[typeddict-item]
        else:
            with pytest.raises(AirflowFailException, match="not approved: ann rejected them: once"):
                operator.execute_complete({}, event)  # type: ignore[typeddict-item]
        kept = root(where).read_json(f"runs/{run_folder('one')}/{layout.APPROVAL}")
        assert (kept["answer"], kept["by"], kept["comment"]) == (choice, "ann", "once")
        assert "at most 0.01 allowed" in kept["limits"][0]
    with pytest.raises(AirflowFailException, match="not approved"):
        operator.execute_complete({}, {"error": "too late", "error_type": "timeout"})  # type: ignore[typeddict-item]
    missed = root(where).read_json(f"runs/{run_folder('one')}/{layout.APPROVAL}")
    assert (missed["answer"], missed["by"]) == ("No answer", "") and "within 2 hours" in missed["comment"]
    assert "at most 0.01 allowed" in missed["limits"][0]
    with pytest.raises(AirflowFailException, match="not approved"):
        operator.execute_complete({}, event)  # type: ignore[typeddict-item]
    finished_run(where, "one")
    (entry,) = read_index(root(where))
    assert entry["approval"]["comment"] == "once"
    assert ti.run(gate(where, max_edge_cut="1")) is None  # the gate is cleared, and asks nobody
    assert not root(where).exists(f"runs/{run_folder('one')}/{layout.APPROVAL}")


@pytest.mark.parametrize("hours", [40, 80])
def test_a_run_that_waits_for_an_approval_keeps_the_lock(
    where: dict[str, Any], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Nothing renews it meanwhile, and one that waits for 48 hours gets 24 hours for what comes after."""
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **detail: None)
    one = TaskInstance("one")
    one.id = "some"  # type: ignore[attr-defined]
    lock(where, one)
    finished_run(where, "one")
    with pytest.raises(TaskAwaitingInput):
        one.run(gate(where, max_edge_cut="0.01", approval="True", approval_hours="48"))
    held = root(where).read_json(layout.LOCK)
    renewed = datetime.now(UTC) - timedelta(hours=hours)
    root(where).write_json(layout.LOCK, {**held, "renewed": renewed.isoformat(timespec="seconds")})
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "there")
    if hours < 48 + 24:
        with pytest.raises(AirflowRescheduleException):
            lock(where, TaskInstance("two"))
    else:
        assert lock(where, TaskInstance("two")) is not None


def test_retention_keeps_what_it_is_told(where: dict[str, Any]) -> None:
    runs = [finished_run(where, name) for name in ("one", "two", "three")]
    ti = TaskInstance("three")

    def retain(**options: Any) -> Any:
        return ti.run(RetainRunsOperator(task_id="retain", run_id="three", **where, **options))

    with pytest.raises(AirflowSkipException, match="keep"):
        retain(keep="")
    assert retain(keep="1", grace_days="7") == []
    assert retain(keep="2", grace_days="0") == [runs[0].uri]
    assert [run.exists(layout.MANIFEST) for run in runs] == [False, True, True]


def changes(where: dict[str, Any], ti: TaskInstance, force: bool = False, **settings: Any) -> Any:
    graph = {"storage_conn_id": None, "num_parts": 2, "engine": "random", **where, **settings}
    return ti.run(LookForChangesOperator(task_id="changes", graph=graph, force=force))


def test_a_graph_that_has_not_changed_is_skipped_and_it_says_why(where: dict[str, Any]) -> None:
    ti = TaskInstance("look")
    assert changes(where, ti)["previous"] == ""
    assert "no published run yet" in ti.xcoms["reason"]
    run = finished_run(where, "one")
    with pytest.raises(AirflowSkipException, match=r"none of \d+ input files has changed"):
        changes(where, ti)
    assert run.uri in ti.xcoms["reason"]
    assert changes(where, ti, force=True)["previous"] == "latest"
    assert changes(where, ti, num_parts=3)["num_parts"] == 3
    assert "partition.num_parts: 2 -> 3" in ti.xcoms["reason"]
    changes(where, ti, reverse_edges=True)
    assert "1 changed (metadata.json)" in ti.xcoms["reason"]  # as the tasks of a run will see it
    library(papers=60).write(Path(where["input_uri"]))
    assert changes(where, ti, previous="s3://another/run")["previous"] == "s3://another/run"
    assert "edges/0-0.parquet" in ti.xcoms["reason"]


def test_text_for_parmetis_is_a_graph_whose_changes_are_found(where: dict[str, Any], tmp_path: Path) -> None:
    lines = {"nodes": ["0 1 0", "0 1 1", "0 1 2"], "edges": ["0 1 0 0", "1 2 1 0"], "stats": ["3 2 1"]}
    for name, text in lines.items():
        (tmp_path / f"text/toy_{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"text/toy_{name}.txt").write_text("".join(f"{line}\n" for line in text))
    where, ti = {**where, "input_uri": str(tmp_path / "text")}, TaskInstance("look")
    assert changes(where, ti)["previous"] == ""
    finished_run(where, "one")
    with pytest.raises(AirflowSkipException, match=r"none of \d+ input files has changed"):
        changes(where, ti)


def test_a_previous_run_whose_assignment_is_damaged_is_rejected_at_once(where: dict[str, Any]) -> None:
    run = finished_run(where, "one")
    validate = ValidateGraphOperator(
        task_id="validate", run_id="two", previous=run.uri, data_docs=False, **where
    )
    TaskInstance("two").run(validate)
    run.write_bytes(f"{layout.ASSIGNMENT}/paper.npy", b"damaged")
    with pytest.raises(AirflowFailException, match=r"paper\.npy"):
        TaskInstance("two").run(validate)


def test_settings_that_are_left_out_are_those_of_the_form(where: dict[str, Any]) -> None:
    finished_run(where, "one")
    ti = TaskInstance("look")
    graph = {"storage_conn_id": None, **where}
    ti.run(LookForChangesOperator(task_id="changes", graph=graph))
    assert "partition.num_parts: 2 -> 4" in ti.xcoms["reason"]
    assert "partition.engine: random -> auto" in ti.xcoms["reason"]
    defaults = runpy.run_path(str(DAGS / "partition_graph.py"))["PARAMS"]
    form = run_config({name: param.value for name, param in defaults.items() if param.has_value})
    for config in (ValidateConfig, PartitionConfig, ConvertConfig):
        assert form.of(config) == run_config({}).of(config)


def test_a_latest_run_that_is_not_finished_any_more_is_replaced(where: dict[str, Any]) -> None:
    finished_run(where, "one").delete([layout.MANIFEST])
    ti = TaskInstance("look")
    assert changes(where, ti)["previous"] == ""
    assert "no longer finished" in ti.xcoms["reason"]
