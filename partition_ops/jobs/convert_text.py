"""``convert-partition`` as a job: the partitions, then ID maps, quality report and manifest, as in a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.stage import find_stage
from partition_ops.artifacts.tasks import StageResult
from partition_ops.chunked.metadata import METADATA
from partition_ops.formats.parmetis.convert_partition import convert_parmetis
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.schema_metadata import Schema
from partition_ops.jobs.one_stage import run_stage
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

FINISHING = ("idmap", "quality", "publish")  # they read the converted output, and no files of the graph


def convert_text(
    config: ConvertPartitionConfig,
    source: Store,
    schema: Schema,
    destination: Store,
    *,
    schema_where: str = "the schema",
    progress: Progress | None = None,
    report: Callable[[StageResult], None] = lambda result: None,
) -> StageResult:
    """Convert the output of ``pm_dglpart``, and finish the output as ``run`` does.

    The output has ID maps, quality report, records and manifest; `PartitionBook`, `PartitionedGraph`,
    ``idmap``, ``fetch``, ``verify`` and ``publish`` accept it. The manifest is written last. Tasks that are
    done are skipped.

    Args:
        config: Options.
        source: Folder in which ``pm_dglpart`` ran.
        schema: The graph's schema; edge types may have plain names.
        destination: Root of the output.
        schema_where: URI of the schema, for messages.
        progress: Shows the partitions converted.
        report: Called with the result of each task as it ends.

    Returns:
        The result of the conversion; see `convert_parmetis`.

    Raises:
        UsageError: There is no such dtype, or the output is that of a run.
        InvalidInputError: A file is missing or malformed, or does not fit the schema; with file and line.

    Peak memory: that of `convert_parmetis`.
    """
    progress = progress or NoProgress()
    converted = convert_parmetis(
        config, source, schema, destination, schema_where=schema_where, progress=progress
    )
    report(converted)
    with temporary_folder() as scratch:
        graph = _counts_as_graph(destination, source, Path(scratch))
        for stage in map(find_stage, FINISHING):
            own = stage.config(graph_name=config.graph_name)
            report(run_stage(stage, own, graph, destination, progress=progress))
    return converted


def _counts_as_graph(destination: Store, source: Store, folder: Path) -> Store:
    """Return a graph without files that has the types and numbers of the book; stages read only these."""
    book = read_book(destination)
    no_files = {"format": {"name": "csv"}, "data": []}
    graph = LocalStore(folder)
    graph.write_json(
        METADATA,
        {
            "graph_name": book.graph_name,
            "node_type": book.node_types,
            "num_nodes_per_type": [sum(counts) for counts in book.node_counts.values()],
            "edge_type": book.edge_types,
            "num_edges_per_type": [sum(counts) for counts in book.edge_counts.values()],
            "edges": dict.fromkeys(book.edge_types, no_files),
        },
    )
    graph.uri = source.uri
    return graph
