"""Resources of a stage's pod, for Airflow's KubernetesExecutor."""

from __future__ import annotations

import json
import os
from typing import Any

VARIABLE = "GRAPH_PARTITIONING_PODS"


def pod(stage: str) -> dict[str, Any]:
    """Return arguments for the operators of a stage that give their pods the resources of the stage.

    The environment variable ``GRAPH_PARTITIONING_PODS``, where DAGs are parsed, is a JSON object of stages;
    each may have ``resources`` (``requests`` and ``limits`` as in a pod) and a ``node_selector``. Everything
    else comes from the worker's pod template. Other executors ignore the arguments.

    Args:
        stage: ``validate``, ``prepare``, ``partition`` or another one.

    Raises:
        ValueError: The variable is not such an object.
    """
    listed = os.environ.get(VARIABLE)
    wanted = json.loads(listed).get(stage) if listed else None
    if not wanted:
        return {}
    unknown = set(wanted) - {"resources", "node_selector"}
    if unknown:
        raise ValueError(f"{VARIABLE}: {stage} has {sorted(unknown)}; expected: resources, node_selector")
    from kubernetes.client import models  # slow to import, and not installed everywhere

    base = models.V1Container(
        name="base", resources=models.V1ResourceRequirements(**wanted.get("resources", {}))
    )
    spec = models.V1PodSpec(containers=[base], node_selector=wanted.get("node_selector"))
    return {"executor_config": {"pod_override": models.V1Pod(spec=spec)}}
