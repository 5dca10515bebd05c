"""Runs that do not go well, in a real Airflow: what they leave, and what the page of graphs says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape

import pytest

from local_stack.airflow import BUCKET
from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import latest_run
from partition_ops.storage import Store, open_store
from tests.e2e.airflow_site import DAG_ID, Run, Site, wait_until
from tests.graphs import library

pytestmark = [pytest.mark.e2e, pytest.mark.long]
INPUT = f"s3://{BUCKET}/input/states"
OTHER = f"s3://{BUCKET}/input/other-states"
MISSING = f"s3://{BUCKET}/input/mistyped"
OUTPUT = f"s3://{BUCKET}/output-of-states"
HOME = "/graph-partitioning/"


@contextmanager
def paused(site: Site) -> Iterator[None]:
    """Pause the DAG: Airflow starts no more tasks."""
    site.call("PATCH", f"dags/{DAG_ID}", json={"is_paused": True})
    try:
        yield
    finally:
        site.call("PATCH", f"dags/{DAG_ID}", json={"is_paused": False})


def states(site: Site, run: Run) -> dict[str, str]:
    return {task.task_id: task.state for task in site.api.tasks(run.dag_id, run.run_id)}


def root(site: Site) -> Store:
    return open_store(f"{OUTPUT}/small", site.s3.settings())


def row(site: Site, root: str) -> str:
    """The row of a graph, or of an input without a name, on the page of all graphs."""
    text = unescape(site.session(cookie=True).get(site.url(HOME), params={"wait": "2"}, timeout=600).text)
    rows = text.split("data-search=")
    (found,) = (one for one in rows if one.startswith('"') and f" {root} " in one.partition(">")[0])
    return found


def logged(site: Site, run: Run, task_id: str) -> str:
    return "\n".join(str(entry.get("event")) for entry in site.log(run, task_id))


def test_a_run_marked_as_failed_between_two_tasks_fails(site: Site) -> None:
    site.upload(library(papers=120), INPUT)
    run = site.trigger(input_uri=INPUT, output_uri=OUTPUT)
    site.wait_for_task(run, "lock", "success")
    with paused(site):
        wait_until(lambda: {"running", "queued"}.isdisjoint(states(site, run).values()))
        assert "publish" not in [name for name, state in states(site, run).items() if state == "success"]
        site.call("PATCH", run.path, json={"state": "failed"})
    wait_until(lambda: states(site, run)["release"] in ("failed", "success"))
    site.wait(run, "failed")
    assert states(site, run)["release"] == "failed"
    assert latest_run(root(site)) is None
    assert not root(site).exists(layout.LOCK)
    assert "Nothing was published" in row(site, f"{OUTPUT}/small")


def test_a_graph_that_changes_while_its_run_waits_is_validated_again(site: Site) -> None:
    site.upload(library(papers=120), INPUT)
    first = site.trigger(input_uri=INPUT, output_uri=OUTPUT, max_edge_cut=0.0001, approval=True)
    site.wait_for_question(first, "gate")
    assert "waits for approval" in row(site, f"{OUTPUT}/small")
    second = site.trigger(input_uri=INPUT, output_uri=OUTPUT)
    site.wait_for_task(second, "lock", "up_for_reschedule")
    assert "waits for another run since" in row(site, f"{OUTPUT}/small")
    site.upload(library(papers=130), INPUT)
    answer = {"chosen_options": ["Reject"], "params_input": {}}
    site.call("PATCH", f"{first.path}/taskInstances/gate/-1/hitlDetails", json=answer)
    site.wait(first, "failed")
    site.wait(second, "success")
    with open_store(second.root, site.s3.settings()) as run:
        counts = run.read_json(layout.VALIDATION_REPORT)["num_nodes"]
        assert counts["paper"] == 130
        assert run.read_json(layout.QUALITY_REPORT)["num_nodes"] == sum(counts.values())
    assert latest_run(root(site)) == second.root


def test_another_input_does_not_replace_a_graph_without_a_word(site: Site) -> None:
    site.upload(library(papers=20), OTHER)
    before = latest_run(root(site))
    other = site.trigger(input_uri=OTHER, output_uri=OUTPUT)
    site.wait(other, "failed")
    assert INPUT in logged(site, other, "validate")
    assert "replace_input" in row(site, f"{OUTPUT}/small")
    assert latest_run(root(site)) == before
    meant = site.trigger(input_uri=OTHER, output_uri=OUTPUT, replace_input=True)
    site.wait(meant, "success")
    assert latest_run(root(site)) == meant.root


def test_a_run_is_seen_from_its_trigger_on_even_if_its_input_is_missing(site: Site) -> None:
    with paused(site):
        run = site.trigger(input_uri=MISSING, output_uri=OUTPUT)
        assert ">queued<" in row(site, OUTPUT)
    site.wait(run, "failed")
    found = row(site, OUTPUT)
    assert ">failed<" in found and "metadata.json" in found and MISSING in found
    named = site.trigger(input_uri=MISSING, output_uri=OUTPUT, graph_name="small")
    site.wait(named, "failed")
    assert "metadata.json" in row(site, f"{OUTPUT}/small")
    answer = site.session(cookie=True).get(
        site.url(HOME), params={"dag_id": run.dag_id, "run_id": run.run_id}, timeout=600
    )
    assert answer.status_code == 200
    assert "mistyped" in answer.text and "metadata.json" in answer.text
