"""Open an input graph in any form: as chunks, ParMETIS's text, tables, or a graph of DGL or in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.tasks import StageResult, Task
from partition_ops.artifacts.write_access import check_root
from partition_ops.chunked.metadata import METADATA, REVERSED, read_metadata_document
from partition_ops.chunked.reversed_graph import with_reverses
from partition_ops.errors import ConflictError, InvalidInputError, UsageError
from partition_ops.formats.parmetis.graph_store import as_graph
from partition_ops.stages.idmap.options import OwnIds, RemapConfig
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file, is_saved_graph
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.storage.uris import split_file_uri, split_uri
from partition_ops.system.extras import check_installed, is_installed
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import temporary_folder

if TYPE_CHECKING:
    from partition_ops.stages.idmap.string_ids import StringIds
    from partition_ops.stages.ingest.memory.arrays import MemoryGraph
    from partition_ops.stages.validate.user_keys import FindRows, Keys, Rows

Opener = Callable[[str], Store]


def _added_reverses(output: Store | None, graph: Store) -> bool:
    """Return whether an output has reverse edges that the ``metadata.json`` of its graph does not name."""
    if output is None or not output.exists(layout.BOOK):
        return False
    found = read_book(output).reverse_edges
    named = read_metadata_document(graph).get(REVERSED, {}) if found else {}
    return not found.keys() <= {*named, *named.values()}


@contextmanager
def open_graph(
    uri: str | MemoryGraph,
    opened: Opener = open_store,
    *,
    output: Store | None = None,
    previous: Store | None = None,
    config: IngestConfig | None = None,
    data_docs: bool = False,
    read_only: bool = False,
    progress: Progress | None = None,
) -> Iterator[Store]:
    """Open the root of an input graph.

    A ``graph.yaml``, a ``graph.bin`` or a graph in memory is ingested into ``ingest/`` below the output,
    unless that has been done and it has not changed.

    Args:
        uri: Folder of a graph in the chunked format or of ParMETIS's text, a ``graph.yaml``, a ``graph.bin``
            that DGL saved, or a graph in memory.
        opened: Opens the folder of the graph, and those of tables.
        output: Root of the output; without one, the graph is ingested into a temporary folder.
        previous: Root of an earlier run over the same graph, whose nodes keep their IDs.
        config: How to ingest. Without it, a graph in the chunked format has the reverse edges that
            ``output`` has.
        data_docs: Write Data Docs if the tables are rejected.
        read_only: Write nothing below ``output``: take the graph that was made of tables there, or number
            tables as it did if its nodes have the IDs of a still earlier run. Then reverse edges are added
            if ``config`` or ``output`` has them.
        progress: Shows what is read.

    Raises:
        InvalidInputError: The tables are not a graph, or the earlier run was not made from tables.
        ConflictError: Another call ingests into the same output.
        NotInstalledError: A package that reads such a graph is missing.
    """
    if isinstance(uri, str) and not is_graph_file(uri):
        with as_graph(opened(uri), progress=progress) as graph:
            wanted = config.reverse_edges if config is not None else _added_reverses(output, graph)
            with with_reverses(graph, wanted=wanted) as found:
                yield found
        return
    config = config or IngestConfig()
    if isinstance(uri, str):
        check_ingest_installed(uri, config.table_engine)
    with ExitStack() as stack:
        target = None if output is None else output.child(layout.INGEST)
        if target is not None and read_only:
            # a graph of arrays is compared itself; tables may be numbered after those of an earlier run
            if (isinstance(uri, str) or uri.numbers_nodes) and target.exists(METADATA):
                wanted = config.reverse_edges or _added_reverses(output, target)
                yield stack.enter_context(with_reverses(target, wanted=wanted))
                return
            target = None
        if target is None:
            target = LocalStore(Path(stack.enter_context(temporary_folder())))
        if output is not None:
            check_root("stage", output)
        with locked(target, "ingest", within=output):
            if not isinstance(uri, str):
                uri.ingest(target, graph_name=config.graph_name, progress=progress)
            else:
                earlier = None
                if previous is not None and not is_saved_graph(uri):
                    earlier = ingested_graph_of(previous)
                elif read_only and output is not None and not is_saved_graph(uri):
                    folder = LocalStore(Path(stack.enter_context(temporary_folder())))
                    earlier = _graph_before(output, opened, folder)
                ingest_graph_file(
                    config, uri, target, opened, previous=earlier, data_docs=data_docs, progress=progress
                )
        yield stack.enter_context(with_reverses(target, wanted=config.reverse_edges))


def ingest_graph_file(
    config: IngestConfig,
    uri: str,
    target: Store,
    opened: Opener,
    *,
    previous: Store | None = None,
    data_docs: bool = False,
    progress: Progress | None = None,
) -> StageResult:
    """Ingest a ``graph.yaml`` or a ``graph.bin``, unless that has been done and it has not changed.

    Args:
        config: Options.
        uri: The file.
        target: Root of the graph.
        opened: Opens the folder of the file, and those of tables elsewhere.
        previous: Root of an earlier ingested graph, whose nodes keep their IDs.
        data_docs: Write Data Docs if the tables are rejected.
        progress: Shows the types that are done.

    Raises:
        InvalidInputError: The graph is rejected. If its tables have findings, ``validation/report.json``
            below the target has them, in the format of ``validate``.
    """
    check_ingest_installed(uri, config.table_engine)
    folder, name = split_uri(uri)
    with opened(folder) as source:
        if is_saved_graph(uri):
            return ingestion_of(config, source, name, target, opened).run()
        from partition_ops.stages.ingest.problems import RejectedTablesError

        try:
            return ingestion_of(config, source, name, target, opened, previous, progress).run()
        except RejectedTablesError as error:
            from partition_ops.stages.validate.validation_report import report_rejected_tables

            report_rejected_tables(error.counts, error.findings(), target, data_docs=data_docs)
            raise


def rows_finder(opened: Opener) -> FindRows:
    """Return the function by which ``validate`` finds the rows of tables that nodes and edges were made from.

    It finds none if the packages are not installed that read tables.

    Args:
        opened: Opens the folders of tables.
    """

    def find_rows(graph: Store, wanted: Mapping[str, Collection[Keys]]) -> Mapping[str, Rows]:
        if not all(map(is_installed, ("ibis", "duckdb"))):
            return {}
        from partition_ops.stages.ingest.located_rows import rows_of_keys

        return rows_of_keys(graph, wanted, opened)

    return find_rows


def check_ingest_installed(uri: str, table_engine: str) -> None:
    """Check that the packages are installed which read a ``graph.yaml`` or a ``graph.bin``.

    Raises:
        NotInstalledError: One is missing.
    """
    if is_saved_graph(uri):
        check_installed("A graph that DGL saved", "dgl")
        return
    check_installed("A graph of tables", "ibis", "duckdb")
    if table_engine == "spark":
        check_installed("--table-engine spark", "pyspark")


def graph_made_for(run: Store, opened: Opener) -> Store | None:
    """Return the graph that was ingested for a finished run, if it is as it was then.

    The run has ingested it itself, or its input was ingested and is still there.
    """
    graph = run.child(layout.INGEST)
    if not graph.exists(METADATA):
        if not run.exists(layout.MANIFEST):
            return None
        recorded = read_manifest(run)["input"]
        graph = opened(recorded["uri"])
        digests = {entry["path"]: entry["sha256"] for entry in recorded["files"]}
        if not graph.exists(METADATA) or sha256_of(graph.local_copy(METADATA)) != digests.get(METADATA):
            return None
    return graph if graph.exists(layout.record("ingest")) else None


def _graph_before(run: Store, opened: Opener, folder: LocalStore) -> Store | None:
    """Return the graph whose IDs the nodes of a finished run have kept, or None if there is none."""
    from partition_ops.stages.ingest.previous_graph import MANIFEST, continued_graph

    graph = graph_made_for(run, opened)
    return continued_graph(graph, folder) if graph is not None and graph.exists(MANIFEST) else None


def findings_of(graph: Store) -> list[dict[str, Any]]:
    """Return as JSON what `ingest_graph_file` has found in tables and did not reject."""
    from partition_ops.stages.ingest import previous_graph

    if not graph.exists(previous_graph.MANIFEST):
        return []
    return list(previous_graph.read_manifest(graph)["findings"])


def check_continues(run: Store, previous: Store) -> None:
    """Check that the nodes of a run, if it has ingested them, have the IDs of the run that it continues.

    Raises:
        ConflictError: The task ``ingest`` of the run has continued another run.
    """
    graph, before = run.child(layout.INGEST), previous.child(layout.INGEST)
    if not graph.exists(METADATA):
        return
    known = read_record(graph, "ingest")["options"].get("previous")
    expected = hashlib.sha256(before.read_bytes(METADATA)).hexdigest() if before.exists(METADATA) else None
    if known != expected:
        raise ConflictError(
            f"The nodes of {graph.uri} do not have the IDs of the run that is to be continued",
            found="another run was published after the tables had been ingested",
            expected=f"IDs of {previous.uri}",
            remedy="Clear the task 'ingest' and the tasks after it, or start a new run.",
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


def ingestion_of(
    config: IngestConfig,
    source: Store,
    name: str,
    target: Store,
    opened: Opener,
    previous: Store | None = None,
    progress: Progress | None = None,
) -> Task:
    """Return the task that ingests a file of a folder."""
    if is_saved_graph(name):
        from partition_ops.stages.ingest.memory.libraries import saved_graph_task

        return saved_graph_task(config, source, target, graph_file=name)
    from partition_ops.stages.ingest.tables_task import ingest_task

    return ingest_task(
        config,
        source,
        target,
        graph_file=name,
        previous=previous,
        open_root=opened,
        progress=progress,
    )


def open_own_ids(
    own: OwnIds, config: RemapConfig, opened: Opener, ingested: Callable[[], Store]
) -> StringIds | None:
    """Return the user's own IDs that the options name; None if they name none.

    Args:
        own: The options.
        config: Which type.
        opened: Opens the store of a root, and closes it when the IDs have been read.
        ingested: Opens the graph that the run has made of tables, which a GRAPH.yaml stands for.

    Raises:
        UsageError: The files are in several folders, or are not named right.
        InvalidInputError: The graph has no own IDs of the type.
    """
    from partition_ops.stages.idmap.string_ids import StringIds, ids_of_input

    if own.ids_from:
        source = ingested() if is_graph_file(own.ids_from) else opened(own.ids_from)
        return ids_of_input(
            source, config.node_type or config.edge_type or "", edges=config.node_type is None
        )
    if not own.ids:
        return None
    roots, keys = zip(*(split_file_uri(uri, "--ids") for uri in own.ids), strict=True)
    if len(set(roots)) > 1:
        raise UsageError("The files of --ids are in several folders", found=", ".join(sorted(set(roots))))
    return StringIds(opened(roots[0]), keys, own.ids_column)
