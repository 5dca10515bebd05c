"""The DAG and the Helm values have every stage that is declared, as its declaration says."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowSkipException, DuplicateTaskIdFound
from graph_partitioning.operators.run_stage import RunStageOperator

from partition_ops.artifacts import stage as declarations
from partition_ops.artifacts.stage import LAST, Stage, all_stages, find_stage, job_stages
from partition_ops.artifacts.tasks import StageResult, Task
from partition_ops.options.declare import StageConfig, option
from partition_ops.storage import Store
from tests.airflow_tasks import TaskInstance
from tests.graphs import library
from tests.unit.artifacts.test_stage import install
from tests.unit.dags.test_dags import read_dag

VALUES = Path(__file__).parents[3] / "deploy" / "helm" / "values.yaml"


taken: dict[str, Any] = {}


def take(config: Any, source: Store, destination: Store, *, progress: Any, **more: Any) -> StageResult:
    """Run a stage of another package, which keeps what it is given."""
    taken.update({name: one.uri if isinstance(one, Store) else one(source, {}) for name, one in more.items()})
    return Task("other", destination, lambda writer: {}, options={}).run()


def tasks_of(stage: Stage, tasks: list[str]) -> set[str]:
    return {task for task in tasks if task == stage.name or task.startswith(f"{stage.name}.")}


def test_every_stage_follows_the_stages_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = read_dag(monkeypatch)
    found = {stage.name: tasks_of(stage, dag.task_ids) for stage in all_stages()}
    for stage in all_stages():
        assert found[stage.name], stage.name
        before = (dag.get_task(name).get_flat_relative_ids(upstream=True) for name in found[stage.name])
        earlier = set().union(*before)
        for name in stage.after:
            assert found[name] & earlier, f"{stage.name} does not follow {name}"


def test_nothing_runs_beside_a_stage_that_measures_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        Stage(name="beside", after=("schema",)),
        Stage(name="measuring", after=("schema",), alone=True),
    )
    dag = read_dag(monkeypatch)
    for stage in (stage for stage in job_stages() if stage.alone):
        task = dag.get_task(stage.name)
        apart = {name for up in (True, False) for name in task.get_flat_relative_ids(upstream=up)}
        others = {one.task_id for one in dag.tasks if not one.is_teardown} - {stage.name}
        assert others <= apart


def test_a_stage_of_another_package_may_follow_any_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [stage.name for stage in all_stages() if stage.name != LAST]
    install(monkeypatch, Stage(name="other", after=tuple(names)))
    dag = read_dag(monkeypatch)
    before = dag.get_task("other").get_flat_relative_ids(upstream=True)
    assert all(before & tasks_of(find_stage(name), dag.task_ids) for name in names)


def test_a_stage_of_another_package_takes_what_the_shell_gives_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = Stage(name="other", takes=("previous", "expectations", "find_rows"), run=f"{__name__}:take")
    install(monkeypatch, stage)
    options = read_dag(monkeypatch).get_task("other").stage_options
    assert {"previous", "expectations_uri"} <= {*options}
    given = {name: str(tmp_path / name) for name in ("previous", "expectations_uri")}
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    TaskInstance().run(RunStageOperator(task_id="other", stage="other", stage_options=given, **where))
    assert taken == {
        "previous": f"{tmp_path}/previous",
        "expectations": f"{tmp_path}/expectations_uri",
        "find_rows": {},
    }


@dataclass(frozen=True, kw_only=True)
class Share(StageConfig):
    share: float = option(0.0, help="A share.", title="Share")


def test_a_stage_of_another_package_runs_if_its_option_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Stage(name="own", config=Share, optional="share", run=f"{__name__}:take")
    install(monkeypatch, own, Stage(name="other", optional="probe", run=f"{__name__}:take"))
    dag = read_dag(monkeypatch)
    assert dag.get_task("other").enabled == "{{ params.probe }}"
    assert (dag.get_task("own").enabled, dag.get_task("own").stage_options["share"]) == (
        True,
        "{{ params.share }}",
    )
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    for share in ("0.0", "0.1"):
        task = RunStageOperator(task_id="own", stage="own", stage_options={"share": share}, **where)
        with pytest.raises(AirflowSkipException) if share == "0.0" else nullcontext():
            TaskInstance().run(task)


def test_a_built_in_stage_may_have_options_that_no_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin = declarations._builtin()
    monkeypatch.setattr(declarations, "_builtin", lambda: (*builtin, Stage(name="own", config=Share)))
    install(monkeypatch, Stage(name="other"))
    dag = read_dag(monkeypatch)
    assert "share" not in dag.params
    assert "share" not in dag.get_task("own").stage_options


@pytest.mark.parametrize("name", ["gate", "lock"])
def test_a_stage_cannot_have_the_name_of_another_task(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Stage(name=name))
    with pytest.raises(DuplicateTaskIdFound, match=name):
        read_dag(monkeypatch)


def test_what_follows_an_optional_stage_accepts_that_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = read_dag(monkeypatch)
    skipped = [task for task in dag.tasks if hasattr(task, "enabled") or task.task_id == "ingest"]
    assert {"ingest", "probe"} <= {task.task_id for task in skipped}
    for task in skipped:
        assert {one.trigger_rule for one in task.downstream_list} == {"none_failed"}


def test_the_helm_values_have_resources_for_the_stages_that_say_so() -> None:
    values = yaml.safe_load(VALUES.read_text())
    (pods,) = (json.loads(one["value"]) for one in values["env"] if one["name"] == "GRAPH_PARTITIONING_PODS")
    assert {*pods} == {stage.name for stage in all_stages() if stage.pod}


def test_the_dag_gives_pods_the_resources_of_their_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kubernetes")
    pods = {
        stage.name: {"resources": {"limits": {"memory": f"{n}Gi"}}} for n, stage in enumerate(all_stages(), 1)
    }
    dag = read_dag(monkeypatch, GRAPH_PARTITIONING_PODS=json.dumps(pods))
    for n, stage in enumerate(all_stages(), 1):
        given = [
            dag.get_task(name).executor_config["pod_override"].spec.containers[0].resources.limits["memory"]
            for name in tasks_of(stage, dag.task_ids)
            if dag.get_task(name).executor_config
        ]
        assert {*given} == ({f"{n}Gi"} if stage.pod else set()), stage.name
