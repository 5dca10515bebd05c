"""Verification: all checks of a finished output, in their order."""

from __future__ import annotations

from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.verification.book import check_book, check_load
from partition_ops.verification.contents import Features, check_original_ids
from partition_ops.verification.dropped import check_dropped, find_dropped, read_actions
from partition_ops.verification.growth import check_growth
from partition_ops.verification.id_maps import check_id_maps
from partition_ops.verification.input import read_edges
from partition_ops.verification.manifest import check_manifest
from partition_ops.verification.output import Output
from partition_ops.verification.report import Findings, VerifyReport
from partition_ops.verification.structure import (
    STRUCTURE_CHECKS,
    Seen,
    check_absent,
    check_edges,
    check_fields,
    check_nodes,
)
from partition_ops.verification.truth import Truth
from partition_ops.verification.whole import (
    check_config,
    check_ranges,
    check_schema,
    read_assignment,
    read_config,
    read_conversion,
)


def verify_output(
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    graph_name: str | None = None,
) -> VerifyReport:
    """Check every invariant of a finished output against the graph that it was made from.

    The expected output is derived from the input, the assignment and the actions for duplicates and
    self-loops, by code that shares nothing with the code that wrote the output. All checks run, also after a
    failure; a check that cannot run counts as failed. Nothing is written.

    Args:
        source: Root of the input graph.
        destination: Root of the finished output.
        progress: Shows the progress, by partition.
        graph_name: The name of the run, if it differs from the name in ``metadata.json``.

    Returns:
        The outcome of each of `partition_ops.verification.report.CHECKS`.

    Raises:
        InvalidInputError: The input itself is missing or broken.
        StorageError: Storage failed.

    Peak memory: 22 bytes a node and 17 bytes an edge of the whole graph (with fewer than 2^31 nodes of a
    type), plus the largest of: 70 bytes an edge of the largest type, the largest CSV or Parquet
    file of the input, one partition twice with its features. Parquet and CSV features are copied into
    temporary files. 1.9 million nodes and 21 million edges in 4 partitions took 25 s within 1.9 GB.
    """
    findings = Findings()
    metadata = load_metadata(source, graph_name=graph_name)
    with temporary_folder() as folder:
        output = Output(destination, metadata.graph_name, Path(folder) / "output")
        check_schema(findings, destination, metadata)
        check_manifest(findings, source, destination, metadata)
        truth = _truth(findings, source, output, metadata)
        if truth is not None:
            check_growth(findings, output, truth, Path(folder) / "earlier")
            _check_partitions(findings, source, output, truth, progress or NoProgress(), Path(folder))
    return findings.report(source.uri, destination.uri)


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


def _truth(findings: Findings, source: Store, output: Output, metadata: GraphMetadata) -> Truth | None:
    """Return the expected output; None without a usable assignment."""
    edges = [read_edges(source, metadata, type_id) for type_id in range(len(metadata.edge_types))]
    config = read_config(findings, output)
    assignment = read_assignment(findings, output, metadata)
    if assignment is None:
        return None
    dropped = find_dropped(metadata, edges, read_actions(findings, output.store))
    check_dropped(findings, output.store, metadata, dropped)
    num_hops, _ = read_conversion(findings, output.store)
    ids = {type_id: each.ids for type_id, each in dropped.items()}
    truth = Truth(metadata, *assignment, edges, ids, num_hops)
    if config is not None:
        check_config(findings, output, config, truth)
        check_ranges(findings, config, truth)
    check_id_maps(findings, output, truth)
    return truth


def _check_partitions(
    findings: Findings, source: Store, output: Output, truth: Truth, progress: Progress, scratch: Path
) -> None:
    metadata = truth.metadata
    features = Features(source, truth, scratch / "features")
    nodes = Seen(list(metadata.node_types), metadata.num_nodes)
    edges = Seen([str(edge_type) for edge_type in metadata.edge_types], metadata.num_edges)
    with progress.step("verify", truth.num_parts, "partitions") as advance:
        for part in range(truth.num_parts):
            _check_graph(findings, part, output, truth, nodes, edges)
            check_original_ids(findings, part, output, truth)
            features.check(findings, part, output)
            check_book(findings, part, output, truth)
            check_load(findings, part, output, truth)
            advance(1)
    nodes.check_all(findings, "every-node-once")
    edges.check_all(findings, "every-edge-once", truth.in_no_graph())


def _check_graph(
    findings: Findings, part: int, output: Output, truth: Truth, nodes: Seen, edges: Seen
) -> None:
    graph = None
    with findings.check("fields"):
        graph = output.graph(part)
    if graph is None:
        for check in STRUCTURE_CHECKS:
            findings.fail(check, f"part {part}: graph.dgl cannot be read")
        return
    check_fields(findings, part, graph, truth, read_conversion(findings, output.store)[1])
    check_nodes(findings, part, graph, truth, nodes)
    check_edges(findings, part, graph, truth, edges)
    check_absent(findings, part, graph, truth)
