"""The demo's input: this Python environment as a graph, on the local S3 server."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from local_stack.airflow import INPUT_URI
from local_stack.folders import PROJECT, Folders
from local_stack.processes import StackError
from local_stack.s3_server import S3Access
from partition_ops.chunked.metadata import METADATA
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.store import upload_folder
from partition_ops.system.progress import terminal_progress

GRAPH_NAME = "python_environment"
MODULE = "examples.python_environment"
PACKAGES = "DEMO_PACKAGES"


def build_graph(folders: Folders) -> Path:
    """Write the running environment as a graph to the local disk, unless it is already there.

    The environment variable DEMO_PACKAGES names the distributions to read, separated by spaces, for a smaller
    graph.

    Raises:
        StackError: The builder failed and has printed the reason.
    """
    output = folders.root / "input" / GRAPH_NAME
    marker = output.with_suffix(".key")
    key = environment_key()
    if (output / METADATA).exists() and marker.exists() and marker.read_text() == key:
        print("The environment has not changed, so the existing graph is used.")
        return output
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", MODULE, str(output)]
    if packages := _packages():
        command += ["--packages", *packages]
    built = subprocess.run(command, cwd=PROJECT, check=False)
    if built.returncode != 0:
        raise StackError(f"Building the graph ended with status {built.returncode}.")
    marker.write_text(key)
    return output


def environment_key() -> str:
    """Return a digest of what the graph depends on: the installed packages and the code of the builder."""
    digest = hashlib.sha256(sys.version.encode())
    installed = ((found.name, found.version, _installed_at(found)) for found in distributions())
    digest.update(repr((sorted(installed), _packages())).encode())
    for source in sorted((PROJECT / "examples").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _packages() -> list[str]:
    return sorted(os.environ.get(PACKAGES, "").split())


def _installed_at(distribution: Distribution) -> int:
    record = Path(str(distribution.locate_file("")))
    files = [entry for entry in distribution.files or () if entry.name == "RECORD"]
    return (record / files[0]).stat().st_mtime_ns if files else 0


def upload_graph(graph: Path, settings: StorageSettings, uri: str = INPUT_URI) -> None:
    """Replace the graph on the S3 server; ``metadata.json`` is removed first and written last."""
    with open_store(uri, settings) as store:
        store.delete([METADATA])
        store.delete([entry.key for entry in store.list()])
        written = upload_folder(graph, store, progress=terminal_progress(), last=METADATA)
    size = sum(artifact.size for artifact in written)
    print(f"Uploaded {len(written)} files, {size / 1e6:.1f} MB, to {uri}")


def graph_is_there(s3: S3Access) -> bool:
    with open_store(INPUT_URI, s3.settings()) as store:
        return store.exists(METADATA)
