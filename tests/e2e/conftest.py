"""A real Airflow with its real scheduler and a real S3 server, once for all end-to-end tests.

``tests/conftest.py`` gives this folder to one process of pytest. Airflow ends after the last test of the
folder, because it takes a tenth of a core while it waits. ``__init__.py`` makes it a package for that.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from airflow.sdk import BaseOperator
from graph_partitioning import operators
from graph_partitioning.operators.publish import PublishRunOperator

from local_stack.airflow import (
    USER,
    airflow_environment,
    prepare_airflow,
    start_airflow,
    start_storage,
    wait_for_airflow,
)
from local_stack.airflow_api import AirflowApi
from local_stack.folders import PROJECT, Folders, load_secrets
from local_stack.processes import free_port
from local_stack.s3_server import S3Access
from tests.alert_servers import Told, webhook
from tests.e2e.airflow_site import (
    ALERT,
    BROKEN,
    CONNECTION,
    DAG_ID,
    INPUT,
    MANAGE,
    OUTPUT,
    REPARTITION,
    RUN_SECONDS,
    TEXT_DAG_ID,
    VIEWER,
    Run,
    Site,
    lineage_file,
    with_id_out_of_range,
)
from tests.e2e.statsd import StatsdServer
from tests.format_plugin import NAME, install, on_the_path
from tests.graphs import library
from tests.temporary import on_disk  # noqa: F401

CHANGES = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # no DAG changes; each look takes a second
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",  # a tenth of a core with 0.2
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{VIEWER}:viewer",
    "GRAPH_PARTITIONING_INPUT_URI": INPUT,
    "GRAPH_PARTITIONING_OUTPUT_URI": OUTPUT,
}


@pytest.fixture(scope="package")
def statsd() -> StatsdServer:
    """The StatsD server that Airflow sends its metrics to."""
    return StatsdServer()


@pytest.fixture(scope="package")
def told() -> Iterator[tuple[int, Told]]:
    """A webhook for alerts: its port, and what it was told."""
    with webhook() as found:
        yield found


@pytest.fixture(scope="package")
def site(
    tmp_path_factory: pytest.TempPathFactory, statsd: StatsdServer, told: tuple[int, Told]
) -> Iterator[Site]:
    """Airflow with our DAG, the consumers' DAGs, a connection in its database, and another output format."""
    root = tmp_path_factory.mktemp("site")
    folders = Folders(root / "local")
    folders.make()
    (root / "package").mkdir()
    package = install(root / "package")
    settings = {**statsd.settings, **_alerts(told[0]), **_lineage(folders)}
    with _services(folders, _dags(root / "dags"), settings, package) as site:
        for dag_id in (DAG_ID, REPARTITION, MANAGE, TEXT_DAG_ID):
            site.api.wait_for_dag(dag_id, seconds=RUN_SECONDS)
        for name in (CONNECTION, "aws_default"):
            site.add_connection(name, site.s3.endpoint_url)
        _upload(site)
        yield site


@pytest.fixture
def _test_format(site: Site) -> Iterator[None]:
    """Read and write the format of tests/format_plugin.py in this process."""
    with on_the_path(site.package):
        yield


@pytest.fixture(scope="package")
def published(site: Site) -> Run:
    """A run that published the small graph in three partitions, in two formats, after two tasks read it."""
    run = site.trigger(num_parts=3, probe=True, formats=f"dgl,{NAME}", validation_tasks=2, prepare_tasks=2)
    site.wait(run, "success")
    return run


@pytest.fixture(scope="package")
def refused(site: Site) -> Run:
    """A run that stopped at the validation of its graph."""
    run = site.trigger(input_uri=BROKEN, output_uri=f"{OUTPUT}-refused", alerts=ALERT)
    site.wait(run, "failed")
    return run


@contextmanager
def _services(folders: Folders, dags: Path, settings: dict[str, str], package: Path) -> Iterator[Site]:
    secrets = load_secrets(folders)
    with ExitStack() as stack:
        server, s3 = start_storage(folders, secrets)
        stack.callback(server.stop)
        port = free_port()
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
        env = {**_environment(folders, s3, port, dags), **settings, "PYTHONPATH": path}
        prepare_airflow(folders, secrets, env)
        api = AirflowApi(f"http://127.0.0.1:{port}", USER, secrets.airflow_password)
        services = []
        for service in start_airflow(folders, env, port):
            stack.callback(service.stop)
            stack.callback(service.terminate)
            services.append(service)
        wait_for_airflow(api, services)
        yield Site(folders, api, s3, package)


def _environment(folders: Folders, s3: S3Access, port: int, dags: Path) -> dict[str, str]:
    env = airflow_environment(folders, load_secrets(folders), s3, port)
    del env["AIRFLOW_CONN_AWS_DEFAULT"]  # here the connection is in Airflow's database
    return {**env, **CHANGES, "AIRFLOW__CORE__DAGS_FOLDER": str(dags)}


def _alerts(port: int) -> dict[str, str]:
    """Return the environment variables that define an alert, a webhook on this port."""
    message = {name: f"{{{{ alert.{name} }}}}" for name in ("event", "title", "text", "url")}
    notifier = {
        "notifier": "airflow.providers.http.notifications.http.HttpNotifier",
        "arguments": {"http_conn_id": "webhook", "json": message},
    }
    return {
        "AIRFLOW_VAR_GRAPH_ALERTS": json.dumps({ALERT: notifier}),
        "AIRFLOW_CONN_WEBHOOK": f"http://127.0.0.1:{port}",
    }


def _lineage(folders: Folders) -> dict[str, str]:
    """Return settings of OpenLineage's provider: events of tasks that publish are lines of a file."""
    modules = [import_module(one.name) for one in iter_modules(operators.__path__, f"{operators.__name__}.")]
    found = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    others = {one for one in found if issubclass(one, BaseOperator) and one is not PublishRunOperator}
    names = [f"{one.__module__}.{one.__qualname__}" for one in others]
    transport = {"type": "file", "log_file_path": str(lineage_file(folders)), "append": True}
    return {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__DISABLED_FOR_OPERATORS": ";".join(sorted(names)),  # each event takes a process
    }


def _dags(folder: Path) -> Path:
    shutil.copytree(Path(__file__).parent / "dags", folder)
    for dag in (*(PROJECT / "dags").glob("*.py"), PROJECT / "examples" / "dags" / f"{TEXT_DAG_ID}.py"):
        shutil.copy(dag, folder)
    return folder


def _upload(site: Site) -> None:
    for uri, graph in ((INPUT, library(papers=120)), (BROKEN, with_id_out_of_range())):
        site.upload(graph, uri)
