"""A run that fails is told to the alerts that it names, by the DAG processor of a real Airflow."""

from __future__ import annotations

import pytest

from tests.alert_servers import Told
from tests.e2e.airflow_site import BROKEN, Run, Site, wait_until

pytestmark = pytest.mark.e2e


def test_a_failed_run_is_told_with_its_reason(site: Site, told: tuple[int, Told], refused: Run) -> None:
    wait_until(lambda: bool(told[1]))
    ((_, message),) = told[1]  # one for the run, not one for each task
    assert (message["event"], message["title"]) == ("failure", f"{BROKEN}: the run failed")
    assert message["text"].startswith("validate: The check out_of_range_ids failed")
    assert message["url"].startswith(site.url("/graph-partitioning/?dag_id=partition_graph&run_id="))
    assert site.session(cookie=True).get(message["url"], timeout=600).ok


def test_a_run_that_names_an_unknown_alert_does_not_begin(site: Site) -> None:
    run = site.trigger(alerts="nobody")
    site.wait(run, "failed")
    states = {task.task_id: task.state for task in site.api.tasks(run.dag_id, run.run_id)}
    assert (states["ingest"], states["validate"]) == ("failed", "upstream_failed")
    assert any("There is no alert 'nobody'" in str(entry) for entry in site.log(run, "ingest"))
