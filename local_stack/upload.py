"""Copy a graph of the user to the S3 server of the local stack: the command ``upload``."""

from __future__ import annotations

from pathlib import Path

from local_stack.airflow import INPUT_ROOT
from local_stack.folders import Folders
from local_stack.processes import StackError
from local_stack.stack import running
from partition_ops.artifacts.lock import locked
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import PartitionOpsError
from partition_ops.jobs.copy import copy_tree
from partition_ops.stages.ingest.options import is_graph_file
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.progress import terminal_progress


def upload(folders: Folders, path: Path) -> int:
    """Copy a graph to the running stack, and print the input to enter in the form.

    Raises:
        StackError: No stack runs, the path has no graph, or there is a graph with this name.
    """
    path = path.expanduser().absolute()
    documents = [path.name] if path.is_file() else documents_of(path)
    folder = path.parent if path.is_file() else path
    if not documents:
        raise StackError(f"There is no graph in {path}: neither {METADATA} nor a graph.yaml or graph.bin.")
    found = running(folders)
    if found is None:
        raise StackError("Nothing is running: run 'make up' first.")
    print(f"Uploaded. Input graph: {upload_to(INPUT_ROOT, folder, documents[0], found.s3.settings())}")
    return 0


def documents_of(folder: Path) -> list[str]:
    """Return the names of the files in a folder that can be the input of a run, the first one first."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if name == METADATA] + [name for name in names if is_graph_file(name)]


def upload_to(root: str, folder: Path, document: str, settings: StorageSettings) -> str:
    """Copy a folder below a root, and return the URI of its graph.

    Raises:
        StackError: It cannot be copied.
    """
    uri = f"{root}/{folder.name}"
    try:
        with (
            open_store(str(folder)) as source,
            open_store(uri, settings) as destination,
            locked(destination, "copy", reads=[source]),
        ):
            copy_tree(source, destination, progress=terminal_progress())
    except PartitionOpsError as error:
        raise StackError("\n".join(error.lines())) from error
    return uri if document == METADATA else f"{uri}/{document}"
