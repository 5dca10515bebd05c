"""A graph that grows in the S3 server: partitioned again by the real scheduler, and left alone otherwise."""

from __future__ import annotations

import pytest

from local_stack.airflow import BUCKET
from partition_ops.storage import Store, open_store
from partition_ops.verify import verify_output
from tests.e2e.airflow_site import CONNECTION, REPARTITION, Run, Site
from tests.graphs import library
from tests.growth import grown

pytestmark = pytest.mark.e2e
INPUT = f"s3://{BUCKET}/input/growing"
OUTPUT = f"s3://{BUCKET}/output-of-growing"
LIST = f"s3://{BUCKET}/lists/graphs.yaml"
SETTINGS = f"""\
version: 1
defaults:
  storage_conn_id: {CONNECTION}
  num_parts: 2
graphs:
  - input_uri: {INPUT}
    output_uri: {OUTPUT}
    max_imbalance: 2
    keep: 2
"""


@pytest.fixture(scope="module")
def runs(site: Site) -> list[Run]:
    """Three looks at the list: at a new graph, at one that has grown, and at one that has not."""
    with open_store(f"s3://{BUCKET}/lists", site.s3.settings()) as lists:
        lists.write_bytes("graphs.yaml", SETTINGS.encode())
    graph = library(papers=120)
    site.upload(graph, INPUT)
    first = look(site)
    site.upload(grown(graph), INPUT)
    return [first, look(site), look(site)]


@pytest.fixture
def root(site: Site) -> Store:
    """Root of the graph."""
    return open_store(f"{OUTPUT}/small", site.s3.settings())


def look(site: Site) -> Run:
    run = site.repartition(LIST)
    site.wait(run, "success")
    return run


def states(site: Site, run: Run) -> dict[str, str]:
    return {task.task_id: task.state for task in site.api.tasks(REPARTITION, run.run_id)}


def reason(site: Site, run: Run) -> str:
    path = f"{run.path}/taskInstances/graph.changes/xcomEntries/reason?map_index=0"
    found: str = site.call("GET", path)["value"]
    return found


def published(site: Site, root: Store, run: Run) -> Store:
    """What a look has published."""
    path = f"{run.path}/taskInstances/graph.partition/xcomEntries/trigger_run_id?map_index=0"
    begun = Run(site.call("GET", path)["value"], OUTPUT)
    return open_store(begun.root, site.s3.settings())


def test_a_new_graph_is_partitioned(site: Site, root: Store, runs: list[Run]) -> None:
    assert set(states(site, runs[0]).values()) == {"success"}
    assert "no published run yet" in reason(site, runs[0])
    assert not published(site, root, runs[0]).exists("assignment/migration.json")


def test_a_graph_that_has_grown_is_partitioned_from_where_it_was(
    site: Site, root: Store, runs: list[Run]
) -> None:
    first, second = (published(site, root, run) for run in runs[:2])
    assert "edges/1-0.parquet" in reason(site, runs[1])
    migration = second.read_json("assignment/migration.json")
    assert (migration["mode"], migration["previous"]["run"]) == ("incremental", first.uri)
    assert migration["node_types"]["paper"]["old"] == 120
    assert root.read_json("latest.json")["run"] == second.uri
    with open_store(INPUT, site.s3.settings()) as source:
        report = verify_output(source, second)
    assert report.passed, report.failed


def test_a_graph_that_has_not_changed_is_skipped(site: Site, root: Store, runs: list[Run]) -> None:
    assert states(site, runs[2]) == {
        "graphs": "success",
        "graph.changes": "skipped",
        "graph.partition": "skipped",
    }
    assert "none of" in reason(site, runs[2]) and "has changed" in reason(site, runs[2])
    second = published(site, root, runs[1])
    assert root.read_json("latest.json")["run"] == second.uri


def test_nothing_is_left_behind(root: Store, runs: list[Run]) -> None:
    keys = [entry.key for entry in root.list()]
    assert "lock.json" not in keys
    assert not [key for key in keys if "/scratch/" in key]
    assert len([key for key in keys if key.endswith("/manifest.json")]) == 2
