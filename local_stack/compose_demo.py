"""The demo on docker-compose.yaml; its service ``demo`` runs this module in a container."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.runs import run_root

from local_stack.airflow import USER
from local_stack.airflow_api import AirflowApi
from local_stack.demo import DAG_ID, DAG_SECONDS, RUN_SECONDS
from local_stack.example_graph import PYTHON_ENVIRONMENT, upload_graph
from local_stack.folders import Folders
from local_stack.processes import StackError
from local_stack.watch import RunWatch, print_summary
from partition_ops.storage import open_store


def main() -> int:
    """Upload the example graph, partition it, and print the result."""
    settings = GraphStorageHook().settings
    input_uri, name = os.environ["GRAPH_PARTITIONING_INPUT_URI"], PYTHON_ENVIRONMENT.graph_name
    with tempfile.TemporaryDirectory() as scratch:
        graph = PYTHON_ENVIRONMENT.write(Folders(Path(scratch)))
        upload_graph(PYTHON_ENVIRONMENT, graph, settings, input_uri)
    api = AirflowApi(os.environ["AIRFLOW_URL"], USER, os.environ["AIRFLOW_PASSWORD"])
    run_id = f"demo__{time.strftime('%Y%m%dT%H%M%S')}_{secrets.token_hex(2)}"
    api.wait_for_dag(DAG_ID, seconds=DAG_SECONDS)
    # all other params have the defaults of the form
    api.trigger(DAG_ID, run_id, {"input_uri": input_uri, "graph_name": name})
    RunWatch(api, DAG_ID, run_id, print).until_done(seconds=RUN_SECONDS)
    root = run_root(os.environ["GRAPH_PARTITIONING_OUTPUT_URI"], name, run_id)
    with open_store(root, settings) as store:
        print_summary(store)
    print(f"\nPartitions, ID maps, quality report and manifest: {root}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StackError as error:
        sys.exit(f"\n{error}")
