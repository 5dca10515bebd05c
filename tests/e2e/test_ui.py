"""Actions of a person in a browser: log in, trigger with the form, look at the results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_partitioning.runs import run_folder

from local_stack.airflow import USER
from partition_ops.storage import open_store
from tests.e2e.airflow_site import DAG_ID, INPUT, OUTPUT, Run, Site, wait_until
from tests.e2e.browser import PROGRAM, Browser

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium"),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path)
    yield browser
    browser.close()


def log_in(browser: Browser, site: Site, user: str = USER) -> None:
    browser.wait_for_text("Sign in")
    browser.type_into("input[name=username]", user)
    browser.type_into("input[name=password]", site.password(user))
    browser.click("button", "Sign in")


def test_the_link_leads_through_the_login_to_the_report(site: Site, published: Run, browser: Browser) -> None:
    browser.open(site.link(published, "quality"))
    log_in(browser, site)
    browser.wait_for_text("quality/report.html", published.root)
    browser.click("a", "quality/report.html")
    browser.wait_for_text("small", "replication")
    wait_until(lambda: browser.evaluate("document.querySelectorAll('svg').length"))


def test_the_picture_of_the_readme(site: Site, published: Run, browser: Browser, tmp_path: Path) -> None:
    """``PICTURES=docs/images`` keeps the picture."""
    browser.open(site.url(f"/dags/{DAG_ID}/runs/{published.run_id}"))
    log_in(browser, site)
    browser.wait_for_text("Task Instances", "validate", "prepare", "convert.gather", "publish")
    browser.screenshot(Path(os.environ.get("PICTURES", tmp_path)) / "airflow.png")


def test_the_form_needs_nothing_but_a_click(site: Site, published: Run, browser: Browser) -> None:
    browser.open(site.url(f"/dags/{DAG_ID}"))
    log_in(browser, site)
    browser.wait_for_text("Partition a graph", "Trigger")
    browser.click("button", "Trigger")
    browser.wait_for_text("Run Parameters", "Input graph", "Number of partitions", "Balance", "Engine")
    shown = "[...document.querySelectorAll('input')].map(e => e.value)"
    wait_until(lambda: {INPUT, OUTPUT, "4"} <= set(browser.evaluate(shown) or ()))
    before = {run["dag_run_id"] for run in _runs(site)}
    browser.click("[role=dialog] button", "Trigger")
    (started,) = wait_until(lambda: [run for run in _runs(site) if run["dag_run_id"] not in before])
    _watch(browser, site, Run(started["dag_run_id"], OUTPUT))


def _watch(browser: Browser, site: Site, run: Run) -> None:
    """The page of all graphs follows the run until it is published, without being loaded again."""
    browser.open(site.url("/graph-partitioning/"))
    browser.wait_for_text("Worst imbalance")
    browser.evaluate("window.loadedOnce = true")
    browser.wait_for_text("small", "tasks")
    site.wait(run, "success")
    of_graph = f"document.querySelector('tr[data-search^=\"small {OUTPUT}/small \"]')"
    wait_until(lambda: browser.evaluate(f"{of_graph}.querySelector('progress') === null"))
    assert browser.evaluate("window.loadedOnce") is True
    browser.evaluate(f"{of_graph}.querySelector('a').click()")
    browser.wait_for_text(run_folder(run.run_id))


def test_graphs_are_sorted_searched_and_kept_fresh(site: Site, published: Run, browser: Browser) -> None:
    browser.open(site.url("/graph-partitioning/"))
    log_in(browser, site)
    browser.wait_for_text("Worst imbalance", "small")
    is_sorted = "document.querySelector('[aria-sort]') !== null"  # once the script has been loaded
    wait_until(lambda: browser.click("th button", "Edges") or browser.evaluate(is_sorted))
    browser.evaluate("document.activeElement.blur(); document.querySelector('tbody').dataset.old = '1'")
    with open_store(published.root.partition("/runs/")[0], site.s3.settings()) as store:
        index = store.read_bytes("index.json")
        runs = store.read_json("index.json")["runs"]
        store.write_json("index.json", {"version": 1, "runs": [{**one, "num_edges": 987654} for one in runs]})
        try:
            browser.wait_for_text("987,654")
        finally:
            store.write_bytes("index.json", index)
    assert browser.evaluate("document.querySelector('tbody').dataset.old === undefined")
    assert browser.evaluate("document.querySelector('[aria-sort]').innerText.trim()") == "Edges"
    browser.type_into("#search", "no such graph")
    assert browser.evaluate("[...document.querySelectorAll('tbody tr')].every(row => row.hidden)")


def _runs(site: Site) -> list[dict[str, str]]:
    runs: list[dict[str, str]] = site.call("GET", f"dags/{DAG_ID}/dagRuns?limit=100")["dag_runs"]
    return runs
