"""Open an input graph in any form: as chunks, ParMETIS's text, tables, or a graph of DGL or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.graph_store import as_graph
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file, is_saved_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import temporary_folder

if TYPE_CHECKING:
    from partition_ops.stages.ingest.memory_graph import MemoryGraph


@contextmanager
def open_graph(
    uri: str | MemoryGraph,
    settings: StorageSettings | None = None,
    *,
    output: Store | None = None,
    previous: Store | None = None,
    config: IngestConfig | None = None,
    read_only: bool = False,
    progress: Progress | None = None,
) -> Iterator[Store]:
    """Open the root of an input graph.

    A ``graph.yaml``, a ``graph.bin`` or a graph in memory is ingested into ``ingest/`` below the output,
    unless that has been done and it has not changed.

    Args:
        uri: Folder of a graph in the chunked format or of ParMETIS's text, a ``graph.yaml``, a ``graph.bin``
            that DGL saved, or a graph in memory.
        settings: How to reach S3.
        output: Root of the output; without one, tables are ingested into a temporary folder.
        previous: Root of an earlier run over the same graph, whose nodes keep their IDs.
        config: How to ingest.
        read_only: Take the graph that is below ``output``, and write nothing there.
        progress: Shows what is read.

    Raises:
        InvalidInputError: The tables are not a graph, or the earlier run was not made from tables.
        ConflictError: Another call ingests into the same output.
    """
    if isinstance(uri, str) and not is_graph_file(uri):
        with as_graph(open_store(uri, settings), progress=progress) as graph:
            yield graph
        return
    with ExitStack() as stack:
        target = None if output is None else output.child(layout.INGEST)
        if target is not None and read_only:
            if target.exists(METADATA):
                yield target
                return
            target = None
        if target is None:
            target = LocalStore(Path(stack.enter_context(temporary_folder())))
        with locked(target):
            if isinstance(uri, str):
                ingest_graph_file(uri, target, settings, previous=previous, config=config, progress=progress)
            else:
                uri.ingest(target, graph_name=config.graph_name if config else None, progress=progress)
        yield target


def ingest_graph_file(
    uri: str,
    target: Store,
    settings: StorageSettings | None = None,
    *,
    previous: Store | None = None,
    config: IngestConfig | None = None,
    progress: Progress | None = None,
) -> None:
    """Ingest a ``graph.yaml`` or a ``graph.bin``; see `open_graph`."""
    config = config or IngestConfig()
    folder, _, name = uri.rpartition("/")
    with open_store(folder or ("/" if uri.startswith("/") else "."), settings) as source:
        if is_saved_graph(uri):
            from partition_ops.stages.ingest.libraries import ingest_saved_graph

            ingest_saved_graph(config, source, target, graph_file=name)
            return
        from partition_ops.stages.ingest.ingest import ingest_tables

        ingest_tables(
            config,
            source,
            target,
            graph_file=name,
            previous=None if previous is None else ingested_graph_of(previous),
            open_root=lambda root: open_store(root, settings),
            progress=progress,
        )


def ingested_graph_of(run: Store) -> Store:
    """Return the graph that a run was made from, if the run ingested it.

    Raises:
        InvalidInputError: The run was made from a graph that was there already.
    """
    graph = run.child(layout.INGEST)
    if not graph.exists(METADATA):
        raise InvalidInputError(
            f"{run.uri} was not made from tables, so their nodes have no IDs to keep",
            found=f"no {run.uri_of(layout.INGEST)}",
            remedy="Ingest with 'partition-ops ingest GRAPH.yaml NEW --previous OLD', where OLD is the graph"
            " of the earlier run, and take NEW as the input.",
        )
    return graph
