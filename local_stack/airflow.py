"""Airflow's four services on this machine, with a database in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from local_stack.airflow_api import AirflowApi
from local_stack.folders import PROJECT, Folders, Secrets, write_private_json
from local_stack.processes import Service
from local_stack.s3_server import REGION, S3Access, start_s3_server

USER = "admin"
DATABASE = "airflow.db"
BUCKET = "graphs"
INPUT_ROOT = f"s3://{BUCKET}/input"
INPUT_URI = f"{INPUT_ROOT}/packages/graph.yaml"
OUTPUT_URI = f"s3://{BUCKET}/output"
MIGRATE_SECONDS = 400.0
START_SECONDS = 400.0
AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
FOREIGN = ("AIRFLOW", "AWS_", "PYTHONPATH", "PYTHONHOME", "RCLONE_")


def start_storage(folders: Folders, secrets: Secrets, *, preferred_port: int = 0) -> tuple[Service, S3Access]:
    """Start the S3 server of the stack, with the bucket of graphs.

    Raises:
        StackError: The server did not start; the message has the end of its log.
    """
    return start_s3_server(
        folders.s3,
        folders.logs / "s3.log",
        access_key=secrets.s3_access_key,
        secret_key=secrets.s3_secret_key,
        buckets=(BUCKET,),
        preferred_port=preferred_port,
    )


def airflow_environment(folders: Folders, secrets: Secrets, s3: S3Access, port: int) -> dict[str, str]:
    """Return the whole environment of Airflow's services.

    It contains no settings of another Airflow or another AWS account of the user. The credentials of the S3
    server are in the environment, so that they are not in Airflow's database.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {
        **own,
        **_settings(folders, port),
        "AIRFLOW_HOME": str(folders.airflow),
        "AIRFLOW__CORE__FERNET_KEY": secrets.fernet_key,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.jwt_secret,
        "AIRFLOW__API__SECRET_KEY": secrets.session_secret,
        "AIRFLOW_CONN_AWS_DEFAULT": _connection(s3),
        "GRAPH_PARTITIONING_INPUT_URI": INPUT_URI,
        "GRAPH_PARTITIONING_OUTPUT_URI": OUTPUT_URI,
        "NO_PROXY": ",".join(filter(None, ["127.0.0.1", "localhost", os.environ.get("NO_PROXY")])),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "DO_NOT_TRACK": "1",
        "SCARF_ANALYTICS": "false",
        "GX_ANALYTICS_ENABLED": "false",
    }


def prepare_airflow(folders: Folders, secrets: Secrets, env: dict[str, str]) -> None:
    """Create the database, unless this version of Airflow has done so, and the password file.

    Raises:
        StackError: The database could not be created; the message has the end of the log.
    """
    write_private_json(folders.passwords, {USER: secrets.airflow_password})
    marker = folders.airflow / "migrated"
    current = version("apache-airflow")
    if (folders.airflow / DATABASE).exists() and marker.exists() and marker.read_text() == current:
        return
    log = folders.logs / "airflow-db.log"
    migration = Service("'airflow db migrate'", [*_airflow(), "db", "migrate"], env=env, log=log)
    try:
        migration.wait_until_done(seconds=MIGRATE_SECONDS)
    finally:
        migration.stop()
    marker.write_text(current)


def start_airflow(folders: Folders, env: dict[str, str], port: int) -> Iterator[Service]:
    """Start the services one after the other, and yield each as soon as it exists."""
    commands = {
        "api-server": ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        "scheduler": ["--skip-serve-logs"],  # its log server would listen on every address
        "dag-processor": [],
        "triggerer": ["--skip-serve-logs"],
    }
    # the provider forks processes in the threads of the API server, and a request that marks a run may hang
    own = {"api-server": {"AIRFLOW__OPENLINEAGE__DISABLED": "True"}}
    for name, options in commands.items():
        log, variables = folders.logs / f"airflow-{name}.log", {**env, **own.get(name, {})}
        yield Service(f"Airflow's {name}", [*_airflow(), name, *options], env=variables, log=log)


def wait_for_airflow(api: AirflowApi, services: list[Service]) -> None:
    """Wait until the API answers and the scheduler and the DAG processor have a heartbeat.

    Raises:
        StackError: One of them ended, or took too long.
    """
    server, scheduler, processor, *_ = services
    waits: list[tuple[Service, Callable[[], bool]]] = [
        (server, lambda: "metadatabase" in api.healthy()),
        (scheduler, lambda: "scheduler" in api.healthy()),
        (processor, lambda: "dag_processor" in api.healthy()),
    ]
    for service, ready in waits:
        service.wait_until(ready, seconds=START_SECONDS)


def _airflow() -> list[str]:
    return [sys.executable, "-m", "airflow"]


def _connection(s3: S3Access) -> str:
    return json.dumps(
        {
            "conn_type": "aws",
            "login": s3.access_key,
            "password": s3.secret_key,
            "extra": {"endpoint_url": s3.endpoint_url, "region_name": REGION},
        }
    )


def _settings(folders: Folders, port: int) -> dict[str, str]:
    settings = {
        "api__base_url": f"http://127.0.0.1:{port}",
        "core__auth_manager": AUTH_MANAGER,
        "core__dags_are_paused_at_creation": "False",
        "core__dags_folder": str(PROJECT / "dags"),
        "core__execution_api_server_url": f"http://127.0.0.1:{port}/execution/",
        "core__executor": "graph_partitioning.executor.PreloadedLocalExecutor",
        "core__load_examples": "False",
        "core__parallelism": str(min(8, max(2, os.cpu_count() or 2))),
        "core__plugins_folder": str(folders.airflow / "plugins"),  # ours has an entry point
        "core__simple_auth_manager_passwords_file": str(folders.passwords),
        "core__simple_auth_manager_users": f"{USER}:admin",
        "dag_processor__refresh_interval": "10",
        "database__sql_alchemy_connect_args": "local_stack.CONNECT_ARGS",
        "database__sql_alchemy_connect_args_async": "local_stack.CONNECT_ARGS",
        "database__sql_alchemy_conn": f"sqlite:///{folders.airflow / DATABASE}",
        "logging__base_log_folder": str(folders.airflow / "logs"),
        "scheduler__scheduler_idle_sleep_time": "0.1",
        "usage_data_collection__enabled": "False",
        # a task fails if the API server, on the same cores, takes longer to answer; the default is 5 s
        "workers__execution_api_timeout": "60",
        # a worker may miss the end of a task, and looks again after this time
        "workers__min_heartbeat_interval": "1",
    }
    return {"AIRFLOW__" + name.upper(): value for name, value in settings.items()}
