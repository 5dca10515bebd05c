"""Copy a graph of the user to the S3 server of the local stack: the command ``upload``."""

from __future__ import annotations

import json
from pathlib import Path

from local_stack.airflow import INPUT_ROOT
from local_stack.folders import Folders, write_private_json
from local_stack.processes import StackError
from local_stack.stack import running
from partition_ops.artifacts.layout import LOCK
from partition_ops.artifacts.lock import locked
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import PartitionOpsError
from partition_ops.jobs.copy import copy_tree
from partition_ops.stages.ingest.options import is_graph_file
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.progress import terminal_progress


def upload(folders: Folders, path: Path) -> int:
    """Copy a graph to the running stack, and print the input to enter in the form.

    If the same folder is uploaded again, because its graph has grown, the copy gets its files.

    Raises:
        StackError: No stack runs, the path has no graph, or another folder of this name was uploaded.
    """
    path = path.expanduser().absolute()
    documents = [path.name] if path.is_file() else documents_of(path)
    folder = path.parent if path.is_file() else path
    if not documents:
        raise StackError(f"There is no graph in {path}: neither {METADATA} nor a graph.yaml or graph.bin.")
    found = running(folders)
    if found is None:
        raise StackError("Nothing is running: run 'make up' first.")
    known = _uploaded(folders)
    before = known.get(folder.name)
    if before not in (None, str(folder)):
        raise StackError(f"Another folder of this name was uploaded: {before}. Rename {folder}.")
    again = before is not None
    uri = upload_to(INPUT_ROOT, folder, documents[0], found.s3.settings(), again=again)
    write_private_json(folders.uploads, {**known, folder.name: str(folder)})
    print(f"Uploaded. Input graph: {uri}")
    return 0


def _uploaded(folders: Folders) -> dict[str, str]:
    """Return which folder was uploaded under each name."""
    try:
        found: dict[str, str] = json.loads(folders.uploads.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def documents_of(folder: Path) -> list[str]:
    """Return the names of the files in a folder that can be the input of a run, the first one first."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if name == METADATA] + [name for name in names if is_graph_file(name)]


def upload_to(
    root: str, folder: Path, document: str, settings: StorageSettings, *, again: bool = False
) -> str:
    """Copy a folder below a root, and return the URI of its graph.

    Args:
        root: URI of the root.
        folder: The folder, whose name the copy gets.
        document: The file in it that is the input of a run.
        settings: Access to the root.
        again: Whether the copy there may be replaced; files that are not in the folder are removed.

    Raises:
        StackError: It cannot be copied.
    """
    uri = f"{root}/{folder.name}"
    try:
        with (
            open_store(str(folder)) as source,
            open_store(uri, settings) as destination,
            locked(destination, None if again else "copy", reads=[source]),
        ):
            copy_tree(source, destination, progress=terminal_progress())
            kept = {LOCK, *(one.key for one in source.list())}
            destination.delete([one.key for one in destination.list() if one.key not in kept])
    except PartitionOpsError as error:
        raise StackError("\n".join(error.lines())) from error
    return uri if document == METADATA else f"{uri}/{document}"
