"""Measure the page of all graphs in Airflow's API server, over a real S3 server.

    python -m benchmarks.graphs_page [--graphs 100] [--runs 10] [--rounds 7] [--delay 0.2]

It starts an S3 server and Airflow's API server with a database in a file. It writes `index.json` and
`latest.json` of the graphs to S3 and their DAG runs to the database, and reads the page over HTTP: as it is,
and while each request to S3 takes ``--delay`` seconds longer. The first answer waits for storage for a moment
only. If it lacks figures, the page asks again, as its script does.

It prints the seconds of the first request, the median and the largest of the others, and the seconds of a
processor that a request takes in the API server. Other work on the machine hardly changes the last figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import requests

from benchmarks.processes import machine
from benchmarks.slow_server import slow_server
from local_stack.airflow import (
    BUCKET,
    DATABASE,
    USER,
    airflow_environment,
    prepare_airflow,
    start_airflow,
    start_storage,
)
from local_stack.folders import Folders, load_secrets
from local_stack.processes import free_port
from partition_ops.storage import StorageSettings, open_store

DAG_ID = "partition_graph"
CONNECTION = "aws_default"
START = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 300.0
Entry = dict[str, Any]


def entries(graph: int, runs: int) -> list[Entry]:
    """Return the entries of a graph in ``index.json``, as `publish` writes them."""
    from graph_partitioning.runs import run_folder

    nodes = 100_000 * (1 + graph)
    return [
        {
            "run": run_folder(run_id(graph, run)),
            "published": (START + timedelta(days=run, minutes=graph)).isoformat(timespec="seconds"),
            "num_parts": 2 + graph % 15,
            "num_nodes": nodes + 500 * run,
            "num_edges": 10 * nodes + 5000 * run,
            "bytes": 1000 * nodes + run,
            "edge_cut": round(0.15 + (graph * 7 + run * 3) % 20 / 100, 4),
            "worst_imbalance": round(1.01 + (graph + run) % 5 / 100, 3),
            "replication_factor": 1.0 + (graph + run) % 9 / 10,
            "mode": "incremental" if run else "full",
            "moved": round(run / 1000, 6) if run else None,
            "seconds": {"validate": 4.5, "prepare": 6.0, "partition": 21.5 + run, "gather": 30.25},
            "engine": "auto",
            "chosen": "metis" if graph % 3 else "two-level",
            "formats": ["dgl"],
            "partition_config": f"partitions/{name(graph)}.json",
            "input": f"s3://{BUCKET}/input/{name(graph)}",
            "options": {
                "validate": {"on_defect": {}, "data_docs": True},
                "partition": {"engine": "auto", "num_parts": 2 + graph % 15, "seed": run},
                "convert-plan": {"formats": ["dgl"]},
            },
            "defects": {"self_loop_edges": 12 + run},
        }
        for run in range(runs)
    ]


def name(graph: int) -> str:
    """Return the name of a graph."""
    return f"graph-{graph:03d}"


def run_id(graph: int, run: int) -> str:
    """Return the ID of a DAG run."""
    return f"manual__{name(graph)}__{run:04d}"


def write_indexes(output_uri: str, settings: StorageSettings, graphs: int, runs: int) -> None:
    """Write ``index.json`` and ``latest.json`` of graphs straight to storage.

    Args:
        output_uri: Folder of the graphs.
        settings: How to reach it.
        graphs: Number of graphs.
        runs: Number of published runs of each.
    """
    with open_store(output_uri, settings) as output:
        for graph in range(graphs):
            root = output.child(name(graph))
            written = entries(graph, runs)
            root.write_json("index.json", {"version": 1, "runs": written})
            run = root.uri_of(f"runs/{written[-1]['run']}")
            pointer = {"graph_name": name(graph), "run_id": run_id(graph, runs - 1), "run": run}
            more = {"manifest": f"{run}/manifest.json", "partition_config": run, "num_parts": 2}
            root.write_json("latest.json", {"version": 1, **pointer, **more})


def write_dag_runs(database: Path, output_uri: str, graphs: int, runs: int, connection: str) -> None:
    """Write the DAG runs that published the graphs straight to Airflow's database (SQLite).

    Args:
        database: The file.
        output_uri: Folder of the graphs.
        graphs: Number of graphs.
        runs: Number of published runs of each.
        connection: ID of the Airflow connection that reaches the folder.
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from graph_partitioning.runs import XCOM_KEY, run_root
    from sqlalchemy import create_engine, func, select

    ours: list[tuple[Any, ...]] = [*itertools.product(range(graphs), range(runs))]
    engine = create_engine(f"sqlite:///{database}", connect_args={"timeout": SECONDS})
    tables: dict[Any, list[dict[str, Any]]] = {m.__table__: [] for m in (DagRun, TaskInstance, XComModel)}
    dag_runs, tasks, xcoms = tables.values()
    with engine.begin() as session:
        first = 1 + (session.scalar(select(func.max(DagRun.id))) or 0)
        for number, (graph, run) in enumerate(ours, first):
            when = START + timedelta(days=run, minutes=graph)
            key = {"dag_id": DAG_ID, "run_id": run_id(graph, run)}
            of_task = {**key, "task_id": "publish", "map_index": -1}
            times = {"start_date": when, "end_date": when}
            state = {"state": "success", "span_status": "ended"}
            ended = {"run_after": when, "run_type": "manual", "conf": {}, "clear_number": 0}
            dag_runs.append({"id": number, **key, **times, **state, **ended})
            task = {"operator": "PublishRunOperator", "pool": "default_pool", "pool_slots": 1}
            tasks.append({"id": uuid4(), **of_task, **times, **state, **task, "try_number": 1})
            root = run_root(output_uri, name(graph), run_id(graph, run))
            value = {"root": root, "record": "manifest.json", "storage_conn_id": connection}
            xcoms.append(
                {"dag_run_id": number, **of_task, "key": XCOM_KEY, "value": value, "timestamp": when}
            )
        for table, rows in tables.items():
            session.execute(table.insert(), rows)
    engine.dispose()


def _write_dag(database: Path) -> None:
    """Write that there is the DAG, as the DAG processor does."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{database}")
    dag = {"dag_id": DAG_ID, "bundle_name": "dags", "is_stale": False, "is_paused": False}
    limits = {"max_active_tasks": 8, "max_active_runs": 4, "max_consecutive_failed_dag_runs": 0}
    more = {"exceeds_max_non_backfill": False, "has_task_concurrency_limits": False, "fail_fast": False}
    with engine.begin() as session:
        session.execute(DagBundleModel.__table__.insert(), [{"name": "dags", "active": True}])  # type: ignore[attr-defined]
        session.execute(DagModel.__table__.insert(), [{**dag, **limits, **more}])  # type: ignore[attr-defined]
    engine.dispose()


@contextmanager
def _served(
    root: Path, graphs: int, runs: int, delay: float
) -> Iterator[tuple[str, dict[str, str], psutil.Process]]:
    """Start the servers, and return the URL of the page, the headers of a user and the API server."""
    folders = Folders(root)
    folders.make()
    secrets = load_secrets(folders)
    os.environ["AIRFLOW_HOME"] = str(folders.airflow)  # before the models are imported
    with ExitStack() as stack:
        server, s3 = start_storage(folders, secrets)
        stack.callback(server.stop)
        port = free_port()
        slow = stack.enter_context(slow_server(s3.port, delay)) if delay else s3.port
        env = airflow_environment(folders, secrets, replace(s3, port=slow), port)
        prepare_airflow(folders, secrets, env)
        output = f"s3://{BUCKET}/output"
        write_indexes(output, s3.settings(), graphs, runs)
        _write_dag(folders.airflow / DATABASE)
        write_dag_runs(folders.airflow / DATABASE, output, graphs, runs, CONNECTION)
        services = start_airflow(folders, env, port)
        api = next(services)  # the others would only take the processors
        stack.callback(api.stop)
        url = f"http://127.0.0.1:{port}"
        api.wait_until(lambda: _answers(url), seconds=SECONDS)
        login = {"username": USER, "password": secrets.airflow_password}
        token = requests.post(f"{url}/auth/token", json=login, timeout=SECONDS).json()["access_token"]
        yield f"{url}/graph-partitioning/", {"Authorization": f"Bearer {token}"}, psutil.Process(api.pid)


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/api/v2/monitor/health", timeout=SECONDS).ok
    except requests.RequestException:
        return False


def _processor_seconds(server: psutil.Process) -> float:
    """Return the seconds that a process and its children have taken of processors."""
    times = [one.cpu_times() for one in (server, *server.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def measure(graphs: int, runs: int, rounds: int, delay: float = 0.0) -> dict[str, Any]:
    """Return the seconds until the page has all figures, until its first answer, and its bytes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _served(Path(folder), graphs, runs, delay) as (url, headers, server),
    ):
        seconds, processor, first = [], [], []
        for _ in range(rounds):
            began, used = time.perf_counter(), _processor_seconds(server)
            answer = requests.get(url, headers=headers, timeout=SECONDS)
            first.append(round(time.perf_counter() - began, 3))
            while "data-pending" in answer.text:  # the script of the page asks again at once
                answer = requests.get(f"{url}?wait=1", headers=headers, timeout=SECONDS)
            seconds.append(round(time.perf_counter() - began, 3))
            processor.append(round(_processor_seconds(server) - used, 3))
            if answer.status_code != 200 or answer.text.count("%</td>") != graphs:
                raise RuntimeError(f"The page is wrong: {answer.status_code} {answer.text[:500]}")
    times = {"seconds": seconds, "processor_seconds": processor, "seconds_of_first_answer": first}
    return {"delay": delay, "graphs": graphs, "runs": graphs * runs, "bytes": len(answer.content), **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10, help="published runs of each graph")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds, of a request to a slow S3")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    found = [measure(args.graphs, args.runs, args.rounds, delay) for delay in (0.0, args.delay)]
    args.results.mkdir(parents=True, exist_ok=True)
    command = "python -m benchmarks.graphs_page"
    results = {"command": command, "machine": machine(), "rounds": found}
    (args.results / "graphs_page.json").write_text(json.dumps(results, indent=1) + "\n")
    for one in found:
        first, *others = one["seconds"]
        print(
            f"{one['runs']:,} runs of {one['graphs']} graphs, S3 slower by {one['delay']} s:"
            f" first {first:.2f} s,"
            f" median {statistics.median(others):.2f} s, largest {max(others):.2f} s;"
            f" first answer {statistics.median(one['seconds_of_first_answer'][1:]):.2f} s;"
            f" of a processor {statistics.median(one['processor_seconds'][1:]):.2f} s"
        )


if __name__ == "__main__":
    main()
