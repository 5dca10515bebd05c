"""Each stage's pod is as large as the site says."""

from __future__ import annotations

import json
import re
import runpy
from importlib.metadata import version
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from graph_partitioning.pods import VARIABLE, pod

from local_stack.folders import PROJECT
from partition_ops import __version__
from tests.e2e.guide import blocks_of

LARGE = {"requests": {"memory": "64Gi", "cpu": "2"}, "limits": {"memory": "64Gi"}}
SITE = {"partition": {"resources": LARGE, "node_selector": {"size": "large"}}, "convert": {"resources": {}}}


def overrides(task: Any) -> Any:
    """Return what a task, mapped or not, requests of its pod."""
    return (task.executor_config or {}).get("pod_override")


def test_without_settings_no_pod_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert pod("partition") == {}


def test_stages_of_the_dag_get_their_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({**SITE, "convert": {"resources": {"requests": {"cpu": "8"}}}}))
    dag = runpy.run_path(str(PROJECT / "dags" / "partition_graph.py"))["dag"]
    found = {task.task_id: overrides(task) for task in dag.tasks if overrides(task)}
    assert set(found) == {"partition", "convert.scatter", "convert.gather"}
    (base,) = found["partition"].spec.containers
    assert (base.name, base.resources.requests, base.resources.limits) == (
        "base",
        LARGE["requests"],
        LARGE["limits"],
    )
    assert found["partition"].spec.node_selector == {"size": "large"}
    assert found["convert.gather"].spec.containers[0].resources.requests == {"cpu": "8"}


@pytest.mark.parametrize("said", ["not json", '{"partition": {"memory": "64Gi"}}'])
def test_a_mistake_is_told(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(ValueError):
        pod("partition")


def test_values_for_helm_have_pods_for_stages_with_a_limit_they_can_plan_with() -> None:
    values = yaml.safe_load((PROJECT / "deploy" / "helm" / "values.yaml").read_text())
    settings = {entry["name"]: entry["value"] for entry in values["env"]}
    pods = json.loads(settings[VARIABLE])
    dag = (PROJECT / "dags" / "partition_graph.py").read_text()
    assert set(pods) == set(re.findall(r'\*\*pod\("(\w+)"\)', dag))
    for entry in pods.values():
        assert entry["resources"]["requests"]["memory"] == entry["resources"]["limits"]["memory"]
    assert values["images"]["airflow"]["tag"] == __version__
    assert values["airflowVersion"] == version("apache-airflow")
    assert not [name for name in settings if "SECRET" in name or "PASSWORD" in name]


def test_the_example_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(SITE))
    page = PROJECT / "docs/kubernetes.md"
    (code,) = (block.text for block in blocks_of(page) if block.language == "python")
    with DAG("partition_citations") as dag:
        where = {"input_uri": "s3://graphs/citations", "output_uri": "s3://partitioned"}
        exec(compile(code, str(page), "exec"), {"WHERE": where})
    (container,) = overrides(dag.get_task("partition")).spec.containers
    assert container.resources.limits == LARGE["limits"]
