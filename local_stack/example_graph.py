"""The demo's input: this Python environment as a graph, on the local S3 server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from local_stack.airflow import INPUT_URI
from local_stack.folders import PROJECT, Folders
from local_stack.processes import StackError
from local_stack.s3_server import S3Access
from partition_ops.artifacts import METADATA
from partition_ops.progress import terminal_progress
from partition_ops.storage import open_store
from partition_ops.storage.transfer import upload_folder

GRAPH_NAME = "python_environment"
MODULE = "examples.python_environment"


def build_graph(folders: Folders) -> Path:
    """Turn the environment that runs this into a graph on the local disk.

    Raises:
        StackError: The builder failed; it has said why.
    """
    output = folders.root / "input" / GRAPH_NAME
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run([sys.executable, "-m", MODULE, str(output)], cwd=PROJECT, check=False)
    if built.returncode != 0:
        raise StackError(f"Building the graph ended with status {built.returncode}.")
    return output


def upload_graph(graph: Path, s3: S3Access) -> None:
    """Replace the graph on the S3 server; ``metadata.json`` goes first and comes last."""
    with open_store(INPUT_URI, s3.settings()) as store:
        store.delete([METADATA])
        store.delete_prefix("")
        written = upload_folder(graph, store, progress=terminal_progress(), last=METADATA)
    size = sum(artifact.size for artifact in written)
    print(f"Uploaded {len(written)} files, {size / 1e6:.1f} MB, to {INPUT_URI}")


def graph_is_there(s3: S3Access) -> bool:
    with open_store(INPUT_URI, s3.settings()) as store:
        return store.exists(METADATA)
