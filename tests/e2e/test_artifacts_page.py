"""The page that the button "Artifacts" leads to."""

from __future__ import annotations

import re

import pytest
import requests

from partition_ops.storage import open_store
from tests.e2e.airflow_site import Run, Site

pytestmark = pytest.mark.e2e
TASKS = [
    "validate",
    "schema",
    "prepare",
    "partition",
    "convert.plan",
    "convert.config",
    "idmap",
    "quality",
]


@pytest.mark.parametrize("task_id", [*TASKS, "publish"])
def test_lists_what_the_task_wrote(site: Site, published: Run, task_id: str) -> None:
    answer = site.session(cookie=True).get(site.link(published, task_id), timeout=600)
    assert answer.status_code == 200
    assert published.root in answer.text
    record = "manifest.json" if task_id == "publish" else f"records/{task_id.replace('.', '-')}.json"
    with open_store(published.root, site.s3.settings()) as store:
        written = [entry["key"] for entry in store.read_json(record)["artifacts"]]
    shown = [key for key in written if f"<code>{key}</code>" in answer.text]
    assert shown == [key for key in written if not key.startswith("scratch/")]


def test_serves_the_very_bytes(site: Site, published: Run) -> None:
    session = site.session(cookie=True)
    link = site.link(published, "convert.gather", 0)
    shown = session.get(link, timeout=600).text
    for key in ("partitions/part0/graph.dgl", "partitions/part2/node_feat.dgl"):
        assert key in shown
        answer = session.get(f"{link}/files/{key}", timeout=600)
        with open_store(published.root, site.s3.settings()) as store:
            assert answer.content == store.read_bytes(key)
        assert answer.headers["Content-Disposition"].startswith("attachment")


def test_report_is_shown_without_scripts_of_its_own(site: Site, published: Run) -> None:
    link = site.link(published, "quality")
    answer = site.session(cookie=True).get(f"{link}/files/quality/report.html", timeout=600)
    assert answer.headers["Content-Type"].startswith("text/html")
    policy = dict(one.partition(" ")[::2] for one in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and "sandbox" in policy
    # with the times of earlier runs, a page has a script that the policy knows
    has_times = "local(" in answer.text
    assert re.fullmatch(r"'sha256-[\w+/]+='" if has_times else "", policy.get("script-src", ""))
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.text.count('<img src="data:image/svg+xml;base64,') == 2  # seconds, and batches of the probe


def test_needs_a_login(site: Site, published: Run) -> None:
    link = site.link(published, "quality")
    for url in (link, f"{link}/files/quality/report.html", site.url("/graph-partitioning/")):
        assert requests.get(url, timeout=600).status_code == 401
        assert requests.get(url, headers={"Authorization": "Bearer x.y.z"}, timeout=600).status_code == 403
        browser = requests.get(url, headers={"Accept": "text/html"}, timeout=600)
        assert browser.history
        assert "/auth/login" in browser.url


@pytest.mark.parametrize(
    "key",
    [
        "latest.json",
        "../../latest.json",
        "%2e%2e/%2e%2e/latest.json",
        "/etc/passwd",
        "validation/report.json",
    ],
)
def test_serves_nothing_else(site: Site, published: Run, key: str) -> None:
    url = f"{site.link(published, 'schema')}/files/{key}"
    request = requests.Request("GET", url).prepare()
    request.url = url  # as it is, with the dots
    assert site.session(cookie=True).send(request, timeout=600).status_code in (401, 404)


def test_an_edited_xcom_leads_nowhere(site: Site, published: Run) -> None:
    link = site.link(published, "idmap")
    path = f"{published.path}/taskInstances/idmap/xcomEntries/graph_run"
    before = site.call("GET", path)["value"]
    session = site.session(cookie=True)
    try:
        for root in ("/", "s3://graphs/input/small", f"{published.root}/records", "file:///etc"):
            site.call("PATCH", path, json={"value": {**before, "root": root}})
            assert session.get(link, timeout=600).status_code == 404
        site.call("PATCH", path, json={"value": {**before, "record": "../../latest.json"}})
        assert session.get(link, timeout=600).status_code == 404
    finally:
        site.call("PATCH", path, json={"value": before})
    assert session.get(link, timeout=600).status_code == 200
