"""docker-compose.yaml at work: a job on two workers of which one is killed, and a restart of everything."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graph_partitioning.runs import run_root

from local_stack.airflow import OUTPUT_URI
from local_stack.airflow_api import AirflowApi
from local_stack.demo import DAG_ID
from local_stack.example_graph import PYTHON_ENVIRONMENT
from local_stack.folders import PROJECT
from local_stack.watch import RunWatch
from partition_ops.storage import StorageSettings, open_store
from partition_ops.verification import verify_output
from tests.compose.compose_file import runs_once, services
from tests.compose.stack import Stack
from tests.pages import indented_commands

pytestmark = pytest.mark.compose
PARTS = 6
RUN_SECONDS = 3600.0  # where many share a machine, a run has taken half an hour
MEBIBYTE = 1 << 20
MAPPED = ("convert.scatter", "convert.gather")


@dataclass(frozen=True)
class Killed:
    """A run during whose conversion a worker was killed.

    Attributes:
        run_id: The run.
        worker: Container that was killed.
        host: Its name as Airflow knows it.
        hosts: Names of those that had converted by then.
        task: Mapped task that was running on it, with its index.
        root: URI of the run's root.
        instances: What the REST API says of every task instance after the end.
    """

    run_id: str
    worker: str
    host: str
    hosts: set[str]
    task: tuple[str, int]
    root: str
    instances: list[dict[str, Any]]


@pytest.fixture(scope="module")
def killed(stack: Stack, api: AirflowApi, graph: Path) -> Killed:
    """Trigger the DAG, kill a worker that converts, and wait for the end of the run."""
    run_id = "compose__worker_killed"
    api.wait_for_dag(DAG_ID, seconds=400)
    api.trigger(DAG_ID, run_id, {"num_parts": PARTS, "graph_name": PYTHON_ENVIRONMENT.graph_name})
    hosts = {stack.inspect(name)["Config"]["Hostname"]: name for name in stack.containers("worker")}
    instance, seen = _converting(api, run_id)
    worker = hosts[instance["hostname"]]
    stack.run("kill", "--signal", "KILL", worker)
    RunWatch(api, DAG_ID, run_id, print).until_done(seconds=RUN_SECONDS)
    root = run_root(OUTPUT_URI, PYTHON_ENVIRONMENT.graph_name, run_id)
    task = (instance["task_id"], instance["map_index"])
    instances = api.instances(DAG_ID, run_id)
    return Killed(run_id, worker, instance["hostname"], seen, task, root, instances)


def _converting(api: AirflowApi, run_id: str) -> tuple[dict[str, Any], set[str]]:
    """A mapped task that runs, once both workers have had one, and their names."""
    end = time.monotonic() + RUN_SECONDS
    while time.monotonic() < end:
        mapped = [entry for entry in api.instances(DAG_ID, run_id) if entry["task_id"] in MAPPED]
        hosts = {entry["hostname"] for entry in mapped if entry["hostname"]}
        running = [entry for entry in mapped if entry["state"] == "running" and entry["hostname"]]
        if len(hosts) > 1 and running:
            return max(running, key=lambda entry: entry["start_date"]), hosts  # has most time left
        time.sleep(0.2)
    raise TimeoutError("The conversion was not seen on both workers")


def test_every_service_is_up_and_healthy(stack: Stack) -> None:
    for name, service in services().items():
        for container in stack.containers(name):
            state = stack.inspect(container)["State"]
            if runs_once(service):
                assert state["ExitCode"] == 0, container
            else:
                assert state["Running"] and stack.healthy(container), container


def test_logging_in_takes_the_password(stack: Stack, api: AirflowApi) -> None:
    import requests

    wrong = {"username": "admin", "password": "admin"}
    assert requests.post(f"{api.base_url}/auth/token", json=wrong, timeout=120).status_code == 401
    assert api.healthy() >= {"metadatabase", "scheduler", "dag_processor", "triggerer"}


def test_no_process_is_root_and_roots_are_read_only(stack: Stack) -> None:
    for name, service in services().items():
        for container in stack.containers(name):
            if runs_once(service):
                continue
            assert stack.execute(container, "id", "-u").strip() != "0", container
            assert stack.inspect(container)["HostConfig"]["ReadonlyRootfs"], container
            with pytest.raises(AssertionError, match="Read-only"):
                stack.execute(container, "sh", "-c", "touch /etc/here")


def test_stages_see_the_memory_limit_of_their_container(stack: Stack) -> None:
    limits = {
        int(
            stack.execute(
                worker,
                "python",
                "-c",
                "from partition_ops.system.memory import memory_limit; print(memory_limit())",
            )
        )
        for worker in stack.containers("worker")
    }
    assert limits == {4096 * MEBIBYTE}


def test_mapped_tasks_spread_over_both_workers(stack: Stack, killed: Killed) -> None:
    workers = {stack.inspect(name)["Config"]["Hostname"] for name in stack.containers("worker")}
    assert len(workers) == 2 and killed.hosts == workers


def test_what_the_killed_worker_did_was_done_again_elsewhere(killed: Killed) -> None:
    (again,) = [entry for entry in killed.instances if (entry["task_id"], entry["map_index"]) == killed.task]
    assert again["state"] == "success"
    assert again["try_number"] > 1
    assert again["hostname"] in killed.hosts - {killed.host}


def test_the_output_is_sound(killed: Killed, s3: StorageSettings) -> None:
    with open_store(PYTHON_ENVIRONMENT.input_uri, s3) as source, open_store(killed.root, s3) as output:
        report = verify_output(source, output)
    assert report.passed, report.failed


def test_logs_are_on_object_storage(killed: Killed, s3: StorageSettings, api: AirflowApi) -> None:
    with open_store("s3://graphs/logs", s3) as store:
        keys = [entry.key for entry in store.list() if killed.run_id in entry.key]
    assert [key for key in keys if "task_id=publish" in key]


def test_roots_that_are_not_allowed_are_refused(stack: Stack, api: AirflowApi, killed: Killed) -> None:
    run_id = "compose__not_allowed"
    api.trigger(DAG_ID, run_id, {"output_uri": "s3://somebody-elses"})
    end = time.monotonic() + 600
    while api.run_state(DAG_ID, run_id) not in ("failed", "success"):
        assert time.monotonic() < end
        time.sleep(1)
    (failed,) = [task for task in api.tasks(DAG_ID, run_id) if task.state == "failed"]
    assert (failed.task_id, failed.try_number) == ("validate", 1)
    assert "s3://somebody-elses" in api.error_of(DAG_ID, run_id, failed)


def test_secrets_are_in_no_log(stack: Stack, killed: Killed, s3: StorageSettings) -> None:
    secret = [
        value for name, value in stack.settings.items() if name.endswith(("PASSWORD", "SECRET", "_KEY"))
    ]
    texts = [stack.log(container, lines=100_000) for container in stack.containers()]
    with open_store("s3://graphs/logs", s3) as store:
        texts += [store.read_bytes(entry.key).decode() for entry in store.list()]
    assert len(secret) > 6 and texts
    for text in texts:
        assert not [word for word in secret if word in text]


def test_the_upgrade_of_the_page(stack: Stack, api: AirflowApi) -> None:
    """docs/operations.md, in the project of the tests, and without another image."""
    stop, dump, _, start = (
        shlex.split(line.partition(" > ")[0]) for line in indented_commands(PROJECT / "docs/operations.md")
    )
    stack.compose(*stop[2:])
    (scheduler,) = stack.containers("scheduler")
    assert not stack.inspect(scheduler)["State"]["Running"]
    _, _, _, service, *command = dump
    (container,) = stack.containers(service)
    tables = stack.execute(container, "sh", "-c", f"{shlex.join(command)} | pg_restore --list")
    assert "TABLE DATA public dag_run " in tables
    assert start == shlex.split(f"docker compose up -d --scale worker={stack.workers}")
    stack.up()
    assert "scheduler" in api.healthy()


@pytest.fixture(scope="module")
def restarted(stack: Stack, killed: Killed) -> None:
    """Everything taken down and brought up again; what needs it comes last."""
    stack.down()
    assert stack.containers() == []
    stack.up()


def test_runs_and_artifacts_outlive_a_restart(
    restarted: None, killed: Killed, api: AirflowApi, s3: StorageSettings
) -> None:
    assert api.run_state(DAG_ID, killed.run_id) == "success"
    with open_store(killed.root, s3) as output:
        manifest = output.read_json("manifest.json")
        for entry in manifest["artifacts"]:
            found = output.stat(entry["key"])
            assert found is not None and found.size == entry["size"], entry["key"]
    with open_store(f"{OUTPUT_URI}/{PYTHON_ENVIRONMENT.graph_name}", s3) as graph:
        assert graph.read_json("latest.json")["run"] == killed.root


def test_the_demo_runs_after_it(restarted: None, stack: Stack) -> None:
    stack.start("demo")
    log = stack.wait_done("demo", seconds=RUN_SECONDS)
    assert "Replication factor" in log and "manifest: s3://graphs/output" in log
