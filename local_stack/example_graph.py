"""The graphs that the demo can partition, and their upload to the local S3 server."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from local_stack.airflow import INPUT_ROOT
from local_stack.folders import PROJECT, Folders
from local_stack.processes import StackError
from local_stack.s3_server import S3Access
from partition_ops.chunked.metadata import METADATA
from partition_ops.jobs.copy import copy_tree
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.progress import terminal_progress

MODULE = "examples.python_environment"
ONLY_PACKAGES = "DEMO_PACKAGES"
TABLES = PROJECT / "examples" / "debian_packages"


@dataclass(frozen=True, kw_only=True)
class Example:
    """A graph that the demo can partition.

    Attributes:
        graph_name: Name of the graph, and of its folder.
        title: What it is.
        document: The file that names all others, which is uploaded last.
        training: Module that trains on an output.
        write: Writes the graph into a new folder below `Folders.root`, if it is not there, and returns it.
        params: Params of the DAG that the graph needs.
    """

    graph_name: str
    title: str
    document: str
    training: str
    write: Callable[[Folders], Path]
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The folder of the graph on the S3 server."""
        return f"{INPUT_ROOT}/{self.graph_name}"

    @property
    def input_uri(self) -> str:
        """The input of the DAG."""
        return self.uri if self.document == METADATA else f"{self.uri}/{self.document}"


def copy_packages(folders: Folders) -> Path:
    """Copy the tables of Debian's packages."""
    output = folders.root / "input" / "packages"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for path in (*TABLES.glob("*.csv.gz"), TABLES / "graph.yaml"):
        shutil.copyfile(path, output / path.name)
    return output


def write_environment(folders: Folders) -> Path:
    """Write the running environment as a graph to the local disk, unless it is already there.

    The environment variable DEMO_PACKAGES names the distributions to read, separated by spaces, for a smaller
    graph.

    Raises:
        StackError: The builder failed and has printed the reason.
    """
    output = folders.root / "input" / "python_environment"
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


PACKAGES = Example(
    graph_name="packages",
    title="packages of Debian, as tables",
    document="graph.yaml",
    training="examples.debian_packages.train",
    write=copy_packages,
    params={"on_duplicate_edges": "warn"},  # a package may both depend on another one and suggest it
)
PYTHON_ENVIRONMENT = Example(
    graph_name="python_environment",
    title="this Python environment as a graph",
    document=METADATA,
    training="examples.training",
    write=write_environment,
)
EXAMPLES = {example.graph_name: example for example in (PACKAGES, PYTHON_ENVIRONMENT)}


def environment_key() -> str:
    """Return a digest of what the graph depends on: the installed packages and the code of the builder."""
    digest = hashlib.sha256(sys.version.encode())
    installed = ((found.name, found.version, _installed_at(found)) for found in distributions())
    digest.update(repr((sorted(installed), _packages())).encode())
    for source in sorted((PROJECT / "examples").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _packages() -> list[str]:
    return sorted(os.environ.get(ONLY_PACKAGES, "").split())


def _installed_at(distribution: Distribution) -> int:
    record = Path(str(distribution.locate_file("")))
    files = [entry for entry in distribution.files or () if entry.name == "RECORD"]
    return (record / files[0]).stat().st_mtime_ns if files else 0


def upload_graph(example: Example, graph: Path, settings: StorageSettings, uri: str = "") -> None:
    """Replace a graph on the S3 server, below `Example.uri` or another URI.

    The file that names all others is removed first and written last.
    """
    uri = uri or example.uri
    with LocalStore(graph) as source, open_store(uri, settings) as store:  # no root that runs may use
        store.delete([example.document])
        store.delete([entry.key for entry in store.list()])
        copied = copy_tree(source, store, progress=terminal_progress())
    print(f"Uploaded {copied['files']} files, {copied['bytes'] / 1e6:.1f} MB, to {uri}")


def is_there(example: Example, s3: S3Access) -> bool:
    with open_store(example.uri, s3.settings()) as store:
        return store.exists(example.document)
