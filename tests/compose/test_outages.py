"""docker-compose.yaml while one of its services is away for a minute in the middle of a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from graph_partitioning.runs import run_root

from local_stack.airflow import OUTPUT_URI
from local_stack.airflow_api import AirflowApi
from local_stack.demo import DAG_ID
from local_stack.example_graph import PYTHON_ENVIRONMENT
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.verification import verify_output
from tests.compose.stack import Stack

pytestmark = [pytest.mark.compose, pytest.mark.long]
PARTS = 6
AWAY_SECONDS = 60.0
RUN_SECONDS = 3600.0  # where many share a machine, a run has taken half an hour
MIDDLE = ("partition", "convert.plan", "convert.scatter", "convert.gather")
FOLDERS = ("assignment/", "partitions/", "idmap/", "schema/")


@pytest.fixture(scope="session")
def queued_seconds() -> int:
    """Partitions that wait for others to be built are not lost, even on a machine that others use too."""
    return 120


def artifacts(output: Store) -> dict[str, str]:
    """Return the SHA-256 of the files whose bytes depend on the input and the options only."""
    listed = output.read_json("manifest.json")["artifacts"]
    return {entry["key"]: entry["sha256"] for entry in listed if entry["key"].startswith(FOLDERS)}


@pytest.fixture(scope="module")
def expected(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Partition the graph without Airflow, S3 and containers."""
    output = open_store(str(tmp_path_factory.mktemp("undisturbed") / "out"))
    # named as in the DAG: the name is in assignment.json
    config = RunConfig(num_parts=PARTS, graph_name=PYTHON_ENVIRONMENT.graph_name)
    run_job(config, open_store(str(graph)), output)
    return artifacts(output)


@pytest.mark.parametrize("service", ["scheduler", "redis", "postgres", "minio"])
def test_a_run_outlives_a_service_that_is_away_for_a_minute(
    service: str, stack: Stack, api: AirflowApi, s3: StorageSettings, expected: dict[str, str]
) -> None:
    """It completes by itself, or fails with an error, and completes once it is cleared from its lock on."""
    run_id = f"compose__without_{service}"
    api.wait_for_dag(DAG_ID, seconds=400)
    api.trigger(DAG_ID, run_id, {"num_parts": PARTS, "graph_name": PYTHON_ENVIRONMENT.graph_name})
    wait_for_the_middle(api, run_id)
    stack.interrupt(service, AWAY_SECONDS)
    if wait_for_the_end(api, run_id) == "failed":
        failed = [task for task in api.tasks(DAG_ID, run_id) if task.state == "failed"]
        said = [api.error_of(DAG_ID, run_id, task) for task in failed]
        assert failed and all(said), (failed, said)
        print(f"failed without {service}: {said}")
        failed_early = any(task.task_id in ("ingest", "validate") for task in failed)
        api.clear_from(DAG_ID, run_id, "ingest" if failed_early else "lock")  # it was released at the end
        assert wait_for_the_end(api, run_id) == "success"
    root = run_root(OUTPUT_URI, PYTHON_ENVIRONMENT.graph_name, run_id)
    with open_store(PYTHON_ENVIRONMENT.input_uri, s3) as source, open_store(root, s3) as output:
        report = verify_output(source, output)
        assert report.passed, report.failed
        assert artifacts(output) == expected
    with open_store(f"{OUTPUT_URI}/{PYTHON_ENVIRONMENT.graph_name}", s3) as runs:
        assert runs.read_json("latest.json")["run"] == root
        assert read_lock(runs) is None


def wait_for_the_middle(api: AirflowApi, run_id: str) -> None:
    end = time.monotonic() + RUN_SECONDS
    while not any(task.task_id in MIDDLE and task.state == "running" for task in api.tasks(DAG_ID, run_id)):
        assert time.monotonic() < end
        assert api.run_state(DAG_ID, run_id) in ("queued", "running")
        time.sleep(0.2)


def wait_for_the_end(api: AirflowApi, run_id: str) -> str:
    end = time.monotonic() + RUN_SECONDS
    while (state := api.run_state(DAG_ID, run_id)) not in ("success", "failed"):
        assert time.monotonic() < end, api.tasks(DAG_ID, run_id)
        time.sleep(1)
    return state
