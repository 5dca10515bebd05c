"""The pages of graphs in a real Airflow: none, one and a hundred of them, and what a user does with them.

The tests run in this order; each begins with what the one before it has left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from graph_partitioning.runs import run_folder

from benchmarks.graphs_page import name, write_dag_runs, write_indexes
from local_stack.airflow import BUCKET, DATABASE
from partition_ops.artifacts.latest import latest_run
from partition_ops.storage import Store, open_store
from tests.e2e.airflow_site import CONNECTION, DAG_ID, MANAGE, VIEWER, Run, Site, wait_until
from tests.e2e.browser import Browser
from tests.graphs import library
from tests.growth import grown
from tests.release.conftest import HOME, Save

pytestmark = pytest.mark.e2e
INPUT = f"s3://{BUCKET}/input/of-graphs"
OUTPUT = f"s3://{BUCKET}/output-of-graphs"
HUNDRED = f"s3://{BUCKET}/hundred"
TINY = "document.documentElement.scrollWidth <= window.innerWidth"
ACTIONS = ("Re-partition from the published run", "Remove older runs", "Trigger the run")


@pytest.fixture(scope="module")
def first(site: Site) -> Run:
    """The published run that the graph begins with."""
    site.upload(library(papers=120), INPUT)
    run = site.trigger(num_parts=4, input_uri=INPUT, output_uri=OUTPUT)
    site.wait(run, "success")
    return run


@pytest.fixture(scope="module")
def root(site: Site) -> Iterator[Store]:
    """Root of the graph."""
    with open_store(f"{OUTPUT}/small", site.s3.settings()) as store:
        yield store


def graph_path(site: Site, run: Run) -> str:
    """The path of the page of a run; Airflow's tab of the DAG run leads there."""
    answer = site.session(cookie=True).get(
        site.url(HOME), params={"dag_id": run.dag_id, "run_id": run.run_id}, timeout=60
    )
    assert answer.status_code == 200
    assert run_folder(run.run_id) in answer.text
    return answer.url.removeprefix(site.url("")).partition("/runs/")[0]


def newest_run(site: Site, dag_id: str) -> dict[str, Any]:
    runs = site.call("GET", f"dags/{dag_id}/dagRuns?limit=1&order_by=-run_after")["dag_runs"]
    found: dict[str, Any] = runs[0]
    return found


def confirm(browser: Browser, label: str, answer: str = "") -> None:
    """Press a button, and confirm in the dialog."""
    browser.click("button", label)
    wait_until(lambda: browser.evaluate("document.getElementById('ask').open"))
    browser.click("#ask button", answer or label)


def said(browser: Browser, text: str) -> str:
    """What the page says of an action, once it has this text."""
    shown = "document.getElementById('said').textContent"
    wait_until(lambda: text in str(browser.evaluate(shown)))
    return str(browser.evaluate(shown))


def test_no_graph(site: Site, admin: Browser) -> None:
    admin.open(site.url(HOME))
    text = admin.wait_for_text("There are no graphs yet")
    assert DAG_ID in text and "metadata.json" in text


def test_one_graph(site: Site, admin: Browser, first: Run, save: Save) -> None:
    admin.show_as(width=1300, height=900)
    admin.open(site.url(HOME))
    admin.wait_for_text("1 graph", "small", "auto (")
    admin.open(site.url(graph_path(site, first)))
    admin.wait_for_text("Train on the published run", "published")
    admin.open(site.link(first, "quality") + "/files/quality/report.html")
    admin.wait_for_text("Nodes of each type by partition")
    widths = "[...document.images].map(image => image.naturalWidth)"
    wait_until(lambda: len(admin.evaluate(widths)) == 1 and all(admin.evaluate(widths)))
    save(admin, "quality_page")


def test_the_form_begins_with_the_options_of_the_last_run(
    site: Site, admin: Browser, viewer: Browser, first: Run
) -> None:
    path = graph_path(site, first)
    admin.open(site.url(path))
    admin.wait_for_text("Run again with other options")
    admin.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    value = "document.getElementById('param-{}').value".format
    assert (admin.evaluate(value("num_parts")), admin.evaluate(value("engine"))) == ("4", "auto")
    admin.evaluate("document.getElementById('param-max_edge_cut').select()")
    admin.type_into("#param-max_edge_cut", "0.001")
    admin.evaluate("document.getElementById('param-approval').click()")
    confirm(admin, "Trigger the run", "Trigger")
    said(admin, "has been triggered")
    started = newest_run(site, DAG_ID)
    before = site.call("GET", first.path)["conf"]
    assert started["conf"] == {**before, "max_edge_cut": 0.001, "approval": True}
    assert started["triggering_user_name"] == "admin"

    run = Run(started["dag_run_id"], OUTPUT)
    site.wait_for_question(run, "gate")
    for browser in (admin, viewer):
        browser.open(site.url(path))
        browser.wait_for_text("waits for approval", "edge cut")
    assert "Reject" not in viewer.evaluate("document.body.innerText")
    confirm(admin, "Reject")
    said(admin, "Reject: done")
    site.wait(run, "failed")
    admin.wait_for_text("The newest run failed in gate")


def test_repartition_and_approve(site: Site, admin: Browser, first: Run, root: Store) -> None:
    site.upload(grown(library(papers=120)), INPUT)
    admin.open(site.url(graph_path(site, first)))
    admin.wait_for_text("Re-partition from the published run")
    confirm(admin, "Re-partition from the published run")
    said(admin, "has been triggered")
    started = newest_run(site, DAG_ID)
    assert started["conf"]["previous"] == "latest"
    run = Run(started["dag_run_id"], OUTPUT)
    site.wait_for_question(run, "gate")
    admin.wait_for_text("waits for approval", "Approve")
    confirm(admin, "Approve")
    site.wait(run, "success")
    migration = root.read_json(f"runs/{run_folder(started['dag_run_id'])}/assignment/migration.json")
    assert migration["previous"]["run"] == first.root
    assert latest_run(root) == root.uri_of(f"runs/{run_folder(started['dag_run_id'])}")


def test_an_older_run_is_published_again_and_the_other_one_deleted(
    site: Site, admin: Browser, viewer: Browser, first: Run, root: Store, save: Save
) -> None:
    newer = str(latest_run(root)).rpartition("/")[2]
    path = graph_path(site, first)
    older = run_folder(first.run_id)
    admin.open(site.url(path))
    admin.wait_for_text("Compare A with B", "Moved")
    save(admin, "graph_page")
    admin.click("button", "Compare A with B")
    admin.wait_for_text(
        "Options that differ", "Input files that differ", "edges/1-0.parquet", "old nodes of 'paper'"
    )
    save(admin, "comparison")

    for name_of_run in (older, newer):
        viewer.open(site.url(f"{path}/runs/{name_of_run}"))
        viewer.wait_for_text("Train on this run")
        assert viewer.evaluate("document.querySelectorAll('button[data-act]').length") == 0
    admin.open(site.url(f"{path}/runs/{newer}"))
    admin.wait_for_text("latest.json names it")
    assert "Delete this run" not in admin.evaluate("document.body.innerText")
    admin.open(site.url(f"{path}/runs/{older}"))
    confirm(admin, "Publish this run again")
    said(admin, "Publish this run again: done")
    assert latest_run(root) == first.root
    admin.wait_for_text("latest.json names it")
    events = site.call("GET", "assets/events?limit=1&order_by=-timestamp")["asset_events"]
    assert events[0]["extra"]["run"] == first.root

    admin.open(site.url(f"{path}/runs/{newer}"))
    confirm(admin, "Delete this run")
    said(admin, "Delete this run: done")
    assert not [*root.list(f"runs/{newer}/")]


def test_older_runs_are_removed(site: Site, admin: Browser, first: Run, root: Store) -> None:
    assert len({entry.key.split("/")[1] for entry in root.list("runs/")}) == 2, "the rejected run is there"
    admin.open(site.url(graph_path(site, first)))
    admin.wait_for_text("Remove older runs")
    admin.evaluate("document.querySelector('[name=keep]').value = 1")
    admin.evaluate("document.querySelector('[name=grace_days]').value = 0")
    confirm(admin, "Remove older runs")
    said(admin, "Remove older runs: done")
    assert {entry.key.split("/")[1] for entry in root.list("runs/")} == {run_folder(first.run_id)}


def test_a_refused_action_says_why(site: Site, admin: Browser, first: Run, root: Store) -> None:
    """A page that was opened before somebody else published the run offers what cannot be done any more."""
    admin.open(site.url(graph_path(site, first)))
    admin.wait_for_text("Remove older runs")
    body = {"action": "delete", "graph_uri": root.uri, "run_name": run_folder(first.run_id)}
    conf = {"logical_date": None, "conf": {**body, "storage_conn_id": CONNECTION}}
    act = {"method": "POST", "path": f"/dags/{MANAGE}/dagRuns", "body": conf, "follow": True, "label": "X"}
    script = (
        "(() => { const one = document.createElement('button');"
        f" one.dataset.act = {json.dumps(json.dumps(act))};"
        " document.body.append(one); one.click() })()"
    )
    admin.evaluate(script)
    assert "cannot be deleted" in said(admin, "X: failed")
    assert latest_run(root) == first.root


def test_a_viewer_may_do_none_of_it(site: Site, viewer: Browser, first: Run) -> None:
    viewer.open(site.url(graph_path(site, first)))
    text = viewer.wait_for_text("Train on the published run")
    assert not [label for label in ACTIONS if label in text]
    assert viewer.evaluate("document.querySelectorAll('button[data-act], #trigger').length") == 0
    session = site.session(VIEWER, cookie=True)
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    for method, path, body in (
        ("POST", f"dags/{DAG_ID}/dagRuns", {"logical_date": None}),
        ("POST", f"dags/{MANAGE}/dagRuns", {"logical_date": None}),
        ("PATCH", f"{first.path}/taskInstances/gate/-1/hitlDetails", answer),
    ):
        assert session.request(method, site.url(f"/api/v2/{path}"), json=body, timeout=120).status_code == 403


@pytest.mark.usefixtures("admin")  # whose browser did them, in the tests before
def test_actions_are_in_the_audit_log(site: Site) -> None:
    found = site.call("GET", f"eventLogs?dag_id={MANAGE}&limit=50")["event_logs"]
    triggers = [one for one in found if "trigger" in one["event"]]
    assert len(triggers) >= 4
    assert {one["owner"] for one in triggers} == {"admin"}


def test_airflows_tabs_lead_to_the_graph_and_to_the_run(site: Site, admin: Browser, first: Run) -> None:
    inside = "document.querySelector('iframe')?.contentDocument?.body?.innerText ?? ''"
    admin.open(site.url(f"/dags/{DAG_ID}/plugin/graphs-of-dag"))
    wait_until(lambda: "Train on the published run" in admin.evaluate(inside))
    admin.open(site.url(f"/dags/{DAG_ID}/runs/{first.run_id}/plugin/graph-of-run"))
    wait_until(lambda: "latest.json names it" in admin.evaluate(inside))
    link = "document.querySelector('iframe').contentDocument.querySelector('a[target=_top]')"
    target = admin.evaluate(f"new URL({link}.href).pathname")
    assert target != admin.evaluate("location.pathname")
    admin.evaluate(f"{link}.click()")
    wait_until(lambda: admin.evaluate("location.pathname") == target)


def test_a_hundred_graphs(site: Site, admin: Browser, first: Run, save: Save) -> None:
    write_indexes(HUNDRED, site.s3.settings(), 100, 3)
    write_dag_runs(site.folders.airflow / DATABASE, HUNDRED, 100, 3, CONNECTION)
    with open_store(HUNDRED, site.s3.settings()) as store:
        store.write_bytes(f"{name(7)}/index.json", b"{")
        store.write_bytes(f"{name(7)}/runs/broken/manifest.json", b"<script>alert(1)</script>")
        store.write_bytes(f"{name(8)}/latest.json", b"[]")
    admin.show_as(width=1440, height=900)
    admin.open(site.url(HOME))
    admin.wait_for_text("101 graphs", name(0), name(99))
    rows = "[...document.querySelectorAll('#graphs tbody tr')]"
    assert admin.evaluate(f"{rows}.length") == 101
    of = f"{rows}.find(row => row.querySelector('a').innerText === '{{}}')".format
    assert "latest.json" in admin.evaluate(f"{of(name(8))}.querySelector('div.bad').innerText")
    assert admin.evaluate(f"{rows}.filter(row => row.querySelector('div.bad')).length") == 2
    assert admin.evaluate(f"{rows}.filter(row => row.innerText.includes('%')).length") == 100
    save(admin, "graphs_page")

    admin.type_into("#search", name(42))
    assert admin.evaluate(f"{rows}.filter(row => !row.hidden).length") == 1
    for _ in range(3):
        admin.press("Tab", 9)  # from the search to the choice of a state, the table, and on to a heading
    admin.press("Enter", 13)
    wait_until(lambda: admin.evaluate("document.querySelector('[aria-sort]') !== null"))
    admin.evaluate(f"{of(name(7))}.querySelector('a').click()")
    admin.wait_for_text("manifest.json is damaged")
    admin.open(site.url(HOME))
    admin.wait_for_text(name(9))
    admin.evaluate(f"{of(name(9))}.querySelector('a').click()")
    admin.wait_for_text("Train on the published run")
    admin.evaluate("document.querySelector('th.run a').click()")
    admin.wait_for_text("Train on this run", "unknown: ")  # its manifest is not there


@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_a_telephone_in_light_and_dark(
    site: Site, admin: Browser, first: Run, dark: bool, save: Save
) -> None:
    path = graph_path(site, first)
    admin.show_as(width=390, height=800, dark=dark)
    try:
        for page in (HOME, path, f"{path}/runs/{run_folder(first.run_id)}"):
            admin.open(site.url(page))
            admin.wait_for_text("small")
            wait_until(lambda: admin.evaluate(TINY))
        text_colour = admin.evaluate("getComputedStyle(document.body).color")
        assert text_colour == ("rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)")
    finally:
        admin.show_as(width=1300)
