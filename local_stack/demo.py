"""The demo on this machine: a real graph, partitioned through Airflow's API and scheduler onto S3."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from graph_partitioning.runs import run_root

from local_stack.airflow import OUTPUT_URI
from local_stack.airflow_api import AirflowApi
from local_stack.example_graph import PACKAGES, Example, upload_graph
from local_stack.folders import Folders
from local_stack.processes import StackError
from local_stack.stack import Launch, Running, refuse_if_busy, running
from local_stack.watch import RunWatch, print_summary
from partition_ops.artifacts import layout
from partition_ops.storage import open_store

DAG_ID = "partition_graph"
RUN_PREFIX = "demo__"
DAG_SECONDS = 300.0
RUN_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The graph, and params of the DAG run."""

    example: Example = PACKAGES
    num_parts: int = 4
    engine: str = "auto"

    def params(self) -> dict[str, Any]:
        return {
            "input_uri": self.example.input_uri,
            "output_uri": OUTPUT_URI,
            "graph_name": self.example.graph_name,
            "num_parts": self.num_parts,
            "engine": self.engine,
            **self.example.params,
        }


def demo(folders: Folders, options: DemoOptions) -> int:
    """Run the demo, and print the locations of its results.

    Raises:
        StackError: A step failed, as the message says; all services have been stopped.
    """
    began, example = time.monotonic(), options.example
    with _stack(folders) as (find, check):
        _title(f"The input: {example.title}")
        graph = example.write(folders)
        _title("The services")
        found = find()
        print(f"Airflow {found.state.airflow_url}, S3 server {found.s3.endpoint_url}")
        upload_graph(example, graph, found.s3.settings())
        run_id = f"{RUN_PREFIX}{time.strftime('%Y%m%dT%H%M%S')}_{secrets.token_hex(2)}"
        _title(f"The run {run_id} of the DAG {DAG_ID}")
        _run(found.api, run_id, options, check)
        root = run_root(OUTPUT_URI, example.graph_name, run_id)
        _title("The result")
        with open_store(root, found.s3.settings()) as store:
            print_summary(store)
        _where(found, root, folders, example)
    print(f"Done in {time.monotonic() - began:.0f} s.")
    return 0


def _run(api: AirflowApi, run_id: str, options: DemoOptions, check: Callable[[], None]) -> None:
    api.wait_for_dag(DAG_ID, seconds=DAG_SECONDS)
    for old in api.unfinished_runs(DAG_ID):
        if old.startswith(RUN_PREFIX):  # left by a killed demo
            api.fail_run(DAG_ID, old)
    api.trigger(DAG_ID, run_id, options.params())
    try:
        RunWatch(api, DAG_ID, run_id, print, check).until_done(seconds=RUN_SECONDS)
    except (KeyboardInterrupt, SystemExit):
        with suppress(StackError):
            api.fail_run(DAG_ID, run_id, patience=3)
        raise


@contextmanager
def _stack(folders: Folders) -> Iterator[tuple[Callable[[], Running], Callable[[], None]]]:
    """Use the stack of 'up', or start one while the graph is built.

    Yields two functions: one waits for the stack, the other raises an error if the stack has ended.
    """
    folders.make()
    found = running(folders)
    if found is not None and found.state.owner == "up":
        yield lambda: found, lambda: None
        return
    refuse_if_busy(folders)
    launch = Launch(folders, "demo", leased=True)
    try:
        yield lambda: launch.wait(print), launch.check
    finally:
        print("Stopping Airflow and the S3 server", flush=True)
        launch.stop()


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _where(found: Running, root: str, folders: Folders, example: Example) -> None:
    path = folders.s3 / root.removeprefix("s3://")
    print(f"\nPartitions, ID maps, quality report and manifest: {root}")
    print(f"stored by the local S3 server in {path}")
    if found.state.owner == "up":
        print(f"The run in the browser: {found.state.airflow_url}/dags/{DAG_ID}\n")
    else:
        print("\nWhat to look at next:")
        print(f"  the quality page   {path / layout.QUALITY_PAGE}")
        print("  the page 'Graphs'  make up, which keeps Airflow running for the browser")
        print(f"  training           .venv/bin/python -m {example.training} {path}\n")
