"""The button "Data Docs" of the task ``validate``: pages of Great Expectations, also of a run that failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from local_stack.airflow import BUCKET
from partition_ops.storage import open_store
from tests.e2e.airflow_site import OUTPUT, Run, Site
from tests.e2e.browser import PROGRAM, Browser
from tests.e2e.test_ui import log_in

pytestmark = pytest.mark.e2e
PAGES = ("index", "validations/edge_types", "expectations/edge_types", "validations/graph")


@pytest.mark.parametrize("which", ["published", "refused"])
def test_the_button_leads_to_pages_without_scripts(
    site: Site, which: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(which)
    link = site.link(run, "validate", name="Data Docs")
    session = site.session(cookie=True)
    for page in PAGES:
        answer = session.get(urljoin(link, f"{page}.html"), timeout=600)
        assert answer.status_code == 200, page
        assert {"default-src 'none'", "sandbox"} <= set(answer.headers["Content-Security-Policy"].split("; "))
        with open_store(run.root, site.s3.settings()) as store:
            assert answer.content == store.read_bytes(f"validation/data_docs/{page}.html")


def test_a_refused_graph_has_its_findings_on_the_artifacts_page(site: Site, refused: Run) -> None:
    link = site.link(refused, "validate")
    session = site.session(cookie=True)
    page = session.get(link, timeout=600)
    for key in ("validation/report.json", "validation/data_docs/index.html"):
        assert f"<code>{key}</code>" in page.text
        assert session.get(f"{link}/files/{key}", timeout=600).status_code == 200
    for key in ("records/validate.json", "validation/dropped/a.npy", "validation/data_docs/none.html"):
        assert session.get(f"{link}/files/{key}", timeout=600).status_code == 404


def test_an_expectation_of_ones_own_fails_the_run(site: Site) -> None:
    uri = f"s3://{BUCKET}/expectations"
    kwargs = {"column": "nodes", "max_value": 100}
    suite = {
        "name": "node_types",
        "expectations": [{"type": "expect_column_values_to_be_between", "kwargs": kwargs}],
    }
    with open_store(uri, site.s3.settings()) as store:
        store.write_bytes("size.json", json.dumps(suite).encode())
    run = site.trigger(output_uri=f"{OUTPUT}-unexpected", expectations_uri=uri)
    site.wait(run, "failed")
    message = " ".join(e["event"] for e in site.log(run, "validate") if e.get("level") == "error")
    assert (
        "Node type 'paper' has nodes 120; expected: nodes values must be less than or equal to 100" in message
    )


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path)
    yield browser
    browser.close()


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")
def test_the_links_between_the_pages_work_in_a_browser(site: Site, refused: Run, browser: Browser) -> None:
    browser.open(site.link(refused, "validate", name="Data Docs"))
    log_in(browser, site)
    browser.wait_for_text("what was expected", "Failed")
    browser.click("a", "edge_types")
    browser.wait_for_text("Expectations on edge_types", "out_of_range_ids")
    browser.click("a", "All tables")
    browser.wait_for_text("what was expected", "Failed")
