"""Partitions that do not pass the quality gate wait for a person, and other runs of the graph for them."""

from __future__ import annotations

import pytest

from partition_ops import artifacts
from partition_ops.storage import open_store
from tests.e2e.airflow_site import OUTPUT, RUN_SECONDS, Run, Site, wait_until

pytestmark = pytest.mark.e2e
PLACE = f"{OUTPUT}-of-two"


def wait_for_task(site: Site, run: Run, task_id: str, state: str) -> None:
    def there() -> bool:
        states = {task.task_id: task.state for task in site.api.tasks(run.dag_id, run.run_id)}
        assert states.get(task_id) != "failed"
        return states.get(task_id) == state

    wait_until(there, seconds=RUN_SECONDS)


def approve(site: Site, run: Run, task_id: str) -> None:
    """As somebody does under Required actions."""
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    site.call("PATCH", f"{run.path}/taskInstances/{task_id}/-1/hitlDetails", json=answer)


def test_one_waits_for_a_person_and_one_for_the_other(site: Site) -> None:
    options = {"output_uri": PLACE, "num_parts": 2, "engine": "random"}
    first = site.trigger(**options, max_edge_cut=0.01, approval=True)
    wait_for_task(site, first, "gate", "awaiting_input")
    root = open_store(f"{PLACE}/small", site.s3.settings())
    assert not root.exists(artifacts.LATEST)
    second = site.trigger(**options)
    wait_for_task(site, second, "lock", "up_for_reschedule")
    approve(site, first, "gate")
    site.wait(first, "success")
    assert root.read_json(artifacts.LATEST)["run"] == first.root
    site.wait(second, "success")
    assert root.read_json(artifacts.LATEST)["run"] == second.root
    assert not root.exists(artifacts.LOCK)
