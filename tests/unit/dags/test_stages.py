"""The DAG and the Helm values have every stage that is declared, as its declaration says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from partition_ops.artifacts.stage import Stage, all_stages
from tests.unit.dags.test_dags import read_dag

VALUES = Path(__file__).parents[3] / "deploy" / "helm" / "values.yaml"


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
