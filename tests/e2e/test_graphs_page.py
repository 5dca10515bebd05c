"""The page of all graphs, and of one graph. What a browser does with them is in `test_ui`."""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import quote

import pytest
import requests
from graph_partitioning.runs import run_folder

from local_stack.airflow import USER
from partition_ops.storage import open_store
from tests.e2e.airflow_site import MANAGE, VIEWER, Run, Site

pytestmark = pytest.mark.e2e
HOME = "/graph-partitioning/"


def read(site: Site, path: str = HOME, user: str = USER) -> requests.Response:
    """A page with all of its figures, on a machine that is busy too."""
    session = site.session(user, cookie=True)
    for _ in range(30):
        answer = session.get(site.url(path), params={"wait": "2"}, timeout=60)
        if "data-pending" not in answer.text:
            break
    return answer


def graph_path(site: Site, run: Run) -> str:
    """The path of the page of the graph of a run."""
    root = run.root.partition("/runs/")[0]
    row = rf'data-search="small {re.escape(root)} [^"]*">\s*<th scope="row"><a href="([^"]*)"'
    (path,) = re.findall(row, read(site).text)
    return unescape(path)


def test_a_published_graph_has_its_figures(site: Site, published: Run) -> None:
    page = read(site)
    assert page.status_code == 200
    with open_store(published.root, site.s3.settings()) as store:
        report = store.read_json("quality/report.json")
    for figure in (f"{report['edge_cut']['fraction']:.1%}", f"{report['num_edges']:,}"):
        assert figure in page.text


def test_a_failed_run_says_where_and_why(site: Site, refused: Run) -> None:
    text = read(site).text
    assert "The newest run failed" in text
    assert "edges/0-0.csv" in text


def test_a_graph_shows_its_runs_and_how_to_train(site: Site, published: Run) -> None:
    text = read(site, graph_path(site, published)).text
    root = published.root.partition("/runs/")[0]
    assert f'PartitionedGraph("{root}/runs/' in text
    assert "partition-ops fetch" in text
    assert published.root.rpartition("/")[2] in text
    (report,) = re.findall(r'<a href="([^"]*report\.html)">quality</a>', text)[:1]
    assert read(site, unescape(report)).status_code == 200


def test_the_tab_of_a_dag_run_leads_to_the_page_of_the_run(site: Site, published: Run, refused: Run) -> None:
    for run, shown in ((published, "latest.json"), (refused, "has not been published")):
        answer = read(site, f"{HOME}?dag_id={run.dag_id}&run_id={quote(run.run_id)}")
        assert answer.url.endswith(f"/runs/{run_folder(run.run_id)}")
        assert shown in answer.text
    assert read(site, f"{HOME}?dag_id={published.dag_id}&run_id=none").status_code == 404
    assert read(site, f"{graph_path(site, published)}/runs/none").status_code == 404


def test_only_who_may_act_has_buttons(site: Site, published: Run) -> None:
    path = graph_path(site, published)
    assert "Re-partition from the published run" in read(site, path).text
    assert "data-act" in read(site, path).text
    page = read(site, path, VIEWER)
    assert page.status_code == 200
    assert "data-act" not in page.text and 'id="trigger"' not in page.text
    body = {"logical_date": None, "conf": {"action": "retain", "graph_uri": "s3://graphs/x"}}
    for dag_id in (published.dag_id, MANAGE):
        url = site.url(f"/api/v2/dags/{dag_id}/dagRuns")
        assert site.session(VIEWER, cookie=True).post(url, json=body, timeout=60).status_code == 403
    as_a_form_of_another_site = {"data": json.dumps(body), "headers": {"Content-Type": "text/plain"}}
    answer = site.session(cookie=True).post(url, **as_a_form_of_another_site, timeout=60)
    assert answer.status_code == 422


def test_two_runs_side_by_side(site: Site, published: Run) -> None:
    run = published.root.rpartition("/")[2]
    answer = read(site, f"{graph_path(site, published)}/compare?a={run}&b={run}")
    assert answer.status_code == 200
    assert "author:writes:paper" in answer.text
    assert "Options that differ</h2>\n<p>None.</p>" in answer.text
    assert read(site, f"{graph_path(site, published)}/compare?a={run}&b=../x").status_code == 404


def test_graphs_need_a_login_and_a_known_key(site: Site, published: Run) -> None:
    for path in (HOME, graph_path(site, published)):
        assert requests.get(site.url(path), timeout=600).status_code == 401
    assert read(site, f"{HOME}graphs/0123456789abcdef").status_code == 404


def test_the_policy_allows_our_script_only(site: Site, published: Run) -> None:
    policy = read(site).headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= set(policy)
    assert "<script>" not in read(site).text


def test_a_broken_run_shows_as_broken(site: Site, published: Run) -> None:
    root, _, name = published.root.rpartition("/runs/")
    with open_store(root, site.s3.settings()) as store:
        kept = {key: store.read_bytes(key) for key in ("index.json", f"runs/{name}/quality/report.json")}
        store.delete(["index.json"])
        store.write_bytes(f"runs/{name}/quality/report.json", b"<script>")
        try:
            answer = read(site, graph_path(site, published))
            assert answer.status_code == 200
            assert "quality/report.json" in answer.text
            assert 'class="bad"' in answer.text
        finally:
            for key, content in kept.items():
                store.write_bytes(key, content)
