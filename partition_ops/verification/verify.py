"""Run all checks of a finished output, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import OLD_FORMAT, Book
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format, get_formats
from partition_ops.formats.parmetis import LAYOUT
from partition_ops.formats.parmetis.graph_store import TextGraphStore
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.verification.check_cache import check_cache
from partition_ops.verification.check_features import FeatureChecks, check_original_ids
from partition_ops.verification.check_figures import check_figures
from partition_ops.verification.check_graph import (
    GRAPH_CHECKS,
    GraphChecks,
    Seen,
    check_whole_edges,
    complete_columns,
)
from partition_ops.verification.check_id_maps import (
    check_dropped,
    check_growth,
    check_id_maps,
    check_negatives,
    find_dropped,
    read_actions,
)
from partition_ops.verification.check_output import (
    check_book,
    check_manifest,
    check_part_folders,
    check_schema,
    read_assignment,
    read_convert_options,
)
from partition_ops.verification.check_tables import TABLE_CHECKS, GraphTables, TableChecks
from partition_ops.verification.converted_text import conversion_options, opened_text
from partition_ops.verification.expected_graph import ExpectedGraph
from partition_ops.verification.input_graph import read_edges
from partition_ops.verification.verification_report import VerifyReport, all_checks, make_report


def verify_output(
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    graph_name: str | None = None,
    tables: GraphTables | None = None,
) -> VerifyReport:
    """Check every invariant of a finished output against the graph that it was made from.

    The expected output is derived from the input, the assignment and the actions for duplicates and
    self-loops, by code that shares nothing with the code that writes outputs. Every output format is checked
    as its users load it. All checks run, also after a failure; a check that cannot run counts as failed.
    Nothing is written.

    Args:
        source: Root of the input graph.
        destination: Root of the finished output.
        progress: Shows the partitions.
        graph_name: Name of the graph, if it differs from the one in ``metadata.json``.
        tables: The tables that the graph was made from: they are read again, and `TABLE_CHECKS` run too.

    Returns:
        The outcome of all checks; see `all_checks`.

    Raises:
        InvalidInputError: The input itself is missing or damaged.
        UsageError: An output format is not installed; or the output is that of ``convert-partition``, and
            has attributes or lacks edges that this input does not tell.
        StorageError: The storage failed.

    Peak memory: 22 bytes a node and 17 bytes an edge of the whole graph (with fewer than 2^31 nodes of a
    type); on top of that the greatest of: 70 bytes an edge of the largest type, the largest CSV or Parquet
    file of the input, one partition twice with its features. Parquet and CSV features are copied into
    temporary files. 1.9 million nodes and 21 million edges in 4 partitions took 25 s within 1.9 GB. With
    ``tables``: 250 bytes a node, and 16 bytes an edge of the largest type.
    """
    converted = conversion_options(destination)
    with opened_text(source, destination, converted) as graph:
        return _verify(
            graph, destination, progress or NoProgress(), graph_name, tables, is_text=converted is not None
        )


def _verify(
    source: Store,
    destination: Store,
    progress: Progress,
    graph_name: str | None,
    tables: GraphTables | None,
    *,
    is_text: bool,
) -> VerifyReport:
    """Run all checks; ``is_text`` says that `convert-partition` wrote the output."""
    metadata, findings = load_metadata(source, graph_name=graph_name), Findings()
    if is_text and not isinstance(source, TextGraphStore):
        metadata = replace(metadata, node_features=(), edge_features=())  # the text had none
    check_schema(findings, destination, metadata)
    check_manifest(findings, source, destination, metadata, is_text=is_text)
    options = {"formats": [LAYOUT[0]]} if is_text else read_convert_options(findings, destination)
    formats = get_formats(options.get("formats", [OLD_FORMAT]))
    graph = _expected_graph(findings, source, destination, metadata, options, is_text=is_text)
    if graph is not None:
        book = graph.book(tuple(form.name for form in formats))
        check_book(findings, destination, book)
        check_id_maps(findings, destination, graph, any_node_order=is_text)
        check_negatives(findings, source, destination, graph)
        check_growth(findings, source, destination, formats[0], graph)
        with temporary_folder() as folder:
            features = FeatureChecks(findings, source, destination, graph, Path(folder))
            features.check_trainers()
            number = len(formats) * graph.num_parts
            with progress.step("verify", number, "partitions") as advance:
                for form in formats:
                    seen = graph.only_in_edges() if form.only_in_edges else graph
                    _check_format(findings, destination, form, seen, book, options, features, advance)
            check_cache(findings, source, destination, graph, features)
        check_figures(findings, source, destination, graph, formats, is_text=is_text)
    checks = all_checks(formats)
    if tables is not None:
        TableChecks(findings, tables, source).check()
        checks |= TABLE_CHECKS
    return make_report(findings, checks, source.uri, destination.uri)


def check_finished(output: Store) -> None:
    """Check that an output has a manifest, which a run writes last.

    Raises:
        InvalidInputError: There is no manifest.
    """
    if not output.exists(layout.MANIFEST):
        raise InvalidInputError(
            f"{output.uri} is not a finished output: there is no {layout.MANIFEST}",
            remedy="Check the path, or let 'partition-ops run' finish first.",
        )


def _expected_graph(
    findings: Findings,
    source: Store,
    output: Store,
    metadata: GraphMetadata,
    options: Mapping[str, Any],
    *,
    is_text: bool,
) -> ExpectedGraph | None:
    """Return the expected graph; None without a usable assignment."""
    edges = [read_edges(source, metadata, type_id) for type_id in range(len(metadata.edge_types))]
    assignment = read_assignment(findings, output, metadata)
    if assignment is None:
        return None
    dropped = find_dropped(metadata, edges, {} if is_text else read_actions(findings, output))
    check_dropped(findings, output, metadata, dropped)
    ids = {type_id: each.ids for type_id, each in dropped.items()}
    hops, out_edges = int(options.get("num_hops", 1)), bool(options.get("out_edges", False))
    return ExpectedGraph(metadata, *assignment, edges, ids, hops, out_edges)


def _check_format(
    findings: Findings,
    output: Store,
    form: Format,
    graph: ExpectedGraph,
    book: Book,
    options: Mapping[str, Any],
    features: FeatureChecks,
    advance: Callable[[int], object],
) -> None:
    """Check all partitions in one output format; ``options`` are those of ``convert``."""
    if not form.of_partitions:  # it has the whole graph only, by original ID
        form.check_config(findings, output, book)
        with findings.check("every-edge-once"):
            columns = form.load_whole(output, book)
            check_whole_edges(findings, form.name, graph, columns)
            features.check_whole(form.name, columns)
        advance(graph.num_parts)
        return
    metadata = graph.metadata
    check_part_folders(findings, output, form, graph.num_parts)
    form.check_config(findings, output, book)
    nodes = Seen(list(metadata.node_types), metadata.num_nodes)
    edges = Seen([str(edge_type) for edge_type in metadata.edge_types], metadata.num_edges)
    for part in range(graph.num_parts):
        _check_graph(findings, output, form, graph, part, nodes, edges)
        check_original_ids(findings, form, output, part, graph)
        features.check(form, part)
        form.check_partition(findings, output, part, book, options)
        advance(1)
    nodes.check_all(findings, "every-node-once", form.name)
    edges.check_all(findings, "every-edge-once", form.name, graph.in_no_graph())


def _check_graph(
    findings: Findings, output: Store, form: Format, graph: ExpectedGraph, part: int, nodes: Seen, edges: Seen
) -> None:
    columns, where = None, f"{form.name}, part {part}"
    with findings.check("fields"):
        stored = form.load(output, part, ("nodes", "edges"))
        columns = complete_columns(graph, part, stored, form.not_stored)
    if columns is None:
        for check in GRAPH_CHECKS:
            findings.fail(check, f"{where}: the graph cannot be read")
        return
    checks = GraphChecks(findings, where, part, graph, columns)
    checks.check_columns()
    checks.check_nodes(nodes)
    checks.check_edges(edges)
    checks.check_dropped()
