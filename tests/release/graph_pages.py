"""What a user does on the pages of graphs, step by step."""

from __future__ import annotations

from typing import Any

from graph_partitioning.runs import run_folder

from tests.e2e.airflow_site import Run, Site, wait_until
from tests.e2e.browser import Browser
from tests.release.conftest import HOME


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


def confirm(browser: Browser, label: str, answer: str = "") -> str:
    """Press a button, and confirm in the dialog; return what it asked."""
    browser.click("button", label)
    wait_until(lambda: browser.evaluate("document.getElementById('ask').open"))
    question = str(browser.evaluate("document.getElementById('question').textContent"))
    browser.click("#ask button", answer or label)
    return question


def said(browser: Browser, text: str) -> str:
    """What the page says of an action, once it has this text."""
    shown = "document.getElementById('said').textContent"
    wait_until(lambda: text in str(browser.evaluate(shown)))
    return str(browser.evaluate(shown))
