"""The DAG, triggered by REST and run by the real scheduler against a real S3 server."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.e2e.airflow_site import DAG_ID, INPUT, OUTPUT, ROW, VALUE, Run, Site, wait_until
from tests.format_plugin import NAME

pytestmark = pytest.mark.e2e
PARTS = 3
TABLES = ("xcom", "rendered_task_instance_fields", "asset_event", "dag_run", "task_instance")
STAGES = [
    "validate",
    "lock",
    "schema",
    "prepare",
    "partition",
    "convert.plan",
    "convert.config",
    "convert.remove_scratch",
    "idmap",
    "probe",
    "quality",
    "gate",
]


@pytest.fixture
def output(site: Site, published: Run) -> Store:
    return open_store(published.root, site.s3.settings())


def test_every_task_succeeds_at_once(site: Site, published: Run) -> None:
    tasks = site.api.tasks(DAG_ID, published.run_id)
    skipped = [task for task in tasks if task.task_id in ("ingest", "cache", "retain")]
    # the input is a graph, no rows are cached, and all runs are kept
    assert [task.state for task in skipped] == 3 * ["skipped"]
    tasks = [task for task in tasks if task not in skipped]
    # the graph is small, so that all groups share a task, and so do all partitions
    split = [
        f"{group}.{name}"
        for group in ("validation", "preparation")
        for name in ("plan", "scatter [groups 0-1]", "gather [ranges 0-1]")
    ]
    mapped = [*split, "convert.scatter [group 0]", f"convert.gather [parts 0-{PARTS - 1}]"]
    rest = [*STAGES, "revalidate", "convert.partitions", *mapped, "publish", "release"]
    assert sorted(task.name for task in tasks) == sorted(rest)
    assert {(task.state, task.try_number) for task in tasks} == {("success", 1)}


@pytest.mark.usefixtures("_test_format")
def test_verify_finds_nothing(site: Site, output: Store) -> None:
    with open_store(INPUT, site.s3.settings()) as source:
        report = verify_output(source, output)
    assert report.passed, report.failed


@pytest.mark.usefixtures("_test_format")
def test_the_bytes_are_those_of_a_run_without_airflow(site: Site, output: Store, tmp_path: Path) -> None:
    with open_store(INPUT, site.s3.settings()) as source, open_store(str(tmp_path)) as plain:
        run_job(RunConfig(num_parts=PARTS, formats=("dgl", NAME)), source, plain)
        for folder in ("schema/", "prepare/", "assignment/", "partitions/", "formats/", "idmap/"):
            expected = {entry.key: plain.read_bytes(entry.key) for entry in plain.list(folder)}
            assert expected
            assert {entry.key: output.read_bytes(entry.key) for entry in output.list(folder)} == expected


def test_the_probe_is_in_the_report(output: Store) -> None:
    probe = output.read_json("quality/report.json")["probe"]
    assert [one["part"] for one in probe["partitions"]] == list(range(PARTS))
    assert 0 < probe["total"]["remote_neighbour_share"] < 1
    assert output.read_json("records/probe.json")["counters"]["batches_per_second"] > 0


def test_dgl_loads_every_partition(output: Store, tmp_path: Path) -> None:
    for entry in output.list("partitions/"):
        file = tmp_path / entry.key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(output.read_bytes(entry.key))
    config = str(tmp_path / "partitions" / "small.json")
    load = import_dgl().distributed.load_partition
    graphs = [load(config, part)[0] for part in range(PARTS)]
    assert sum(int(graph.ndata["inner_node"].sum()) for graph in graphs) == 60 + 120 + 5


def test_latest_points_at_the_run(site: Site, published: Run, output: Store) -> None:
    latest = open_store(f"{OUTPUT}/small", site.s3.settings()).read_json("latest.json")
    assert latest["run"] == published.root
    assert latest["run_id"] == published.run_id
    assert output.read_json("manifest.json")["options"]["partition"]["num_parts"] == PARTS


@pytest.mark.parametrize("consumer", ["on_any_graph", "on_this_graph", "on_this_graph_by_uri"])
def test_consumers_run(site: Site, published: Run, consumer: str) -> None:
    def result() -> list[dict[str, object]] | None:
        for run in site.call("GET", f"dags/{consumer}/dagRuns?state=success")["dag_runs"]:
            path = f"dags/{consumer}/dagRuns/{run['dag_run_id']}/taskInstances/train"
            found: list[dict[str, object]] = site.call("GET", f"{path}/xcomEntries/return_value")["value"]
            if [event["run"] for event in found] == [published.root]:  # other graphs are published too
                return found
        return None

    (event,) = wait_until(result)
    assert event["num_parts"] == PARTS
    assert event["partition_config"] == f"{published.root}/partitions/small.json"


def test_consumer_of_another_graph_does_not_run(site: Site, published: Run) -> None:
    assert site.call("GET", "dags/on_another_graph/dagRuns")["dag_runs"] == []


def test_bad_input_fails_validate_without_a_retry(site: Site, refused: Run) -> None:
    (failed,) = [task for task in site.api.tasks(DAG_ID, refused.run_id) if task.state == "failed"]
    assert (failed.task_id, failed.try_number) == ("validate", 1)
    errors = [e["event"] for e in site.log(refused, "validate") if e.get("level") == "error"]
    (message,) = [line for line in errors if line.startswith("  found:")]
    for part in ("edges/0-0.csv", "author:writes:paper", f"row {ROW}", str(VALUE), "0 to 59"):
        assert part in message
    with open_store(refused.output_uri, site.s3.settings()) as store:
        left = [entry.key for entry in store.list()]
    assert not [key for key in left if key.endswith(("manifest.json", "latest.json", ".dgl"))]


def test_storage_that_is_down_is_tried_again(site: Site) -> None:
    site.add_connection("nobody_there", "http://127.0.0.1:9")
    run = site.trigger(storage_conn_id="nobody_there")

    def waits() -> bool:
        states = {task.task_id: task.state for task in site.api.tasks(DAG_ID, run.run_id)}
        assert states.get("validate") != "failed"
        return states.get("validate") == "up_for_retry"

    wait_until(waits)
    site.api.fail_run(DAG_ID, run.run_id)


def test_secrets_are_nowhere(site: Site, published: Run) -> None:
    secrets = (site.s3.access_key, site.s3.secret_key)
    logs = [path for path in (site.folders.airflow / "logs").rglob("*") if path.is_file()]
    assert any("task_id=publish" in str(path) for path in logs)
    for path in [*logs, *site.folders.logs.glob("airflow-*.log")]:
        assert not [secret for secret in secrets if secret in path.read_text(errors="replace")], path
    for table in TABLES:
        text = _content(site.folders.airflow / "airflow.db", table)
        assert published.run_id in text
        assert not [secret for secret in secrets if secret in text], table


def _content(database: Path, table: str) -> str:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return json.dumps(connection.execute(f"select * from {table}").fetchall(), default=repr)
