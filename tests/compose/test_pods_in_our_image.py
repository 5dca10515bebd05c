"""The pods of the stages, made by the provider's own code inside our image."""

from __future__ import annotations

import json

import pytest
import yaml

from local_stack.folders import PROJECT
from tests.compose.stack import Stack

pytestmark = pytest.mark.compose
MAKE_PODS = """
import datetime, json, os, runpy, sys
os.environ["GRAPH_PARTITIONING_PODS"] = sys.argv[1]
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from kubernetes.client import ApiClient, models
base = models.V1Container(name="base", image="template")
template = models.V1Pod(metadata=models.V1ObjectMeta(), spec=models.V1PodSpec(containers=[base]))
made = {}
for task in runpy.run_path("/opt/partition-ops/dags/partition_graph.py")["dag"].tasks:
    pod = PodGenerator.construct_pod(
        dag_id="d", task_id=task.task_id, pod_id="p", try_number=1, kube_image="ours:1", date=None,
        args=["run"], pod_override_object=PodGenerator.from_obj(task.executor_config),
        base_worker_pod=template, namespace="airflow", scheduler_job_id="1", run_id="r",
    )
    made[task.task_id] = ApiClient().sanitize_for_serialization(pod)
print(json.dumps(made))
"""


def test_kubernetes_is_given_what_the_values_say(stack: Stack) -> None:
    values = yaml.safe_load((PROJECT / "deploy" / "helm" / "values.yaml").read_text())
    (said,) = [entry["value"] for entry in values["env"] if entry["name"] == "GRAPH_PARTITIONING_PODS"]
    answer = stack.execute(stack.containers("scheduler")[0], "python", "-c", MAKE_PODS, said)
    pods = json.loads(answer.splitlines()[-1])
    for task_id, pod in pods.items():
        (base,) = pod["spec"]["containers"]
        group, _, task = task_id.partition(".")
        stage = {"revalidate": "validate", "validation": "validate", "preparation": "prepare"}.get(
            group, group
        )
        expected = json.loads(said).get(stage) if task in ("", "scatter", "gather") else None
        assert base.get("resources") == (expected and expected["resources"]), task_id
        assert (base["name"], base["image"], base["args"]) == ("base", "ours:1", ["run"])
