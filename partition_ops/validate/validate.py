"""Read every file of a graph once and say what is wrong with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from partition_ops import artifacts
from partition_ops.config import ValidateConfig
from partition_ops.errors import InvalidInputError
from partition_ops.graph.edges import EdgeBlock, EdgeReader
from partition_ops.graph.features import FeatureReader, feature_readers
from partition_ops.graph.metadata import GraphMetadata, load_metadata
from partition_ops.parallel import map_in_threads
from partition_ops.progress import Advance, NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.storage.base import sha256_of
from partition_ops.tasks import StageResult, Task, input_objects, run_task
from partition_ops.validate.defects import Defect, find_duplicates, find_self_loops

REPORT_VERSION = 1


def validate_graph(
    config: ValidateConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Check a graph and write ``validation/report.json``.

    Checked: the metadata; that every file is there and readable; edge rows are two integers inside the
    ranges of their types; the numbers of rows; dtype and shape of features; duplicate and self-loop
    edges within an edge type.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run.
        progress: Shows the edges checked.

    Returns:
        Counts of nodes and edges by type, and of defects.

    Raises:
        InvalidInputError: Something is wrong; the message names file, type, row and value. The report is
            there all the same when the defects are duplicate or self-loop edges.

    Peak memory: 24 bytes for each edge of the largest edge type, and one chunk of a feature.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    _check_chunk_counts(metadata, source.uri_of(artifacts.METADATA))
    inputs = input_objects(source, metadata)

    def work(task: Task) -> dict[str, Any]:
        defects = _edge_defects(metadata, source, progress or NoProgress())
        _check_features(feature_readers(source, metadata), progress or NoProgress())
        report = {
            "version": REPORT_VERSION,
            "graph_name": metadata.graph_name,
            "num_nodes": dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
            "num_edges": dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True)),
            "defects": [asdict(defect) for defect in defects],
            "files": [
                {"path": entry.key, "size": entry.size, "sha256": sha256_of(source.local_copy(entry.key))}
                for entry in inputs
            ],
        }
        task.write_json(artifacts.VALIDATION_REPORT, report)
        if defects and config.on_defect == "fail":
            raise _refusal(defects, destination)
        return {
            "graph_name": metadata.graph_name,
            "nodes": sum(metadata.num_nodes),
            "edges": sum(metadata.num_edges),
            "defects": {f"{defect.check} {defect.type_name}": defect.count for defect in defects},
        }

    return run_task("validate", destination, options=config.options(), inputs=inputs, work=work)


def _check_chunk_counts(metadata: GraphMetadata, where: str) -> None:
    counts = zip(metadata.edge_types, metadata.edges, metadata.num_edges_per_chunk, strict=True)
    for edge_type, data, per_chunk in counts:
        if per_chunk is not None and len(per_chunk) != len(data.files):
            raise InvalidInputError(
                f"{where}: edge type {str(edge_type)!r} has another number of files than of counts",
                found=f"{len(data.files)} files",
                expected=f"{len(per_chunk)} (num_edges_per_chunk)",
            )


def _edge_defects(metadata: GraphMetadata, source: Store, progress: Progress) -> list[Defect]:
    defects: list[Defect] = []
    with progress.step("Checking edges", sum(metadata.num_edges), "edges") as advance:
        for type_id in range(len(metadata.edge_types)):
            defects += _defects_of_type(metadata, source, type_id, advance)
    return defects


def _defects_of_type(metadata: GraphMetadata, source: Store, type_id: int, advance: Advance) -> list[Defect]:
    edge_type = metadata.edge_types[type_id]
    reader = EdgeReader(source, metadata)
    chunks = [chunk for chunk in reader.chunks() if chunk.edge_type_id == type_id]

    def read(chunk: Any) -> list[EdgeBlock]:
        blocks = []
        for block in reader.blocks(chunk):
            advance(len(block.src))
            blocks.append(block)
        return blocks

    blocks = [block for found in map_in_threads(read, chunks) for block in found]
    empty = np.empty(0, np.int64)
    src = np.concatenate([block.src for block in blocks] or [empty])
    dst = np.concatenate([block.dst for block in blocks] or [empty])
    if len(src) != metadata.num_edges[type_id]:
        raise InvalidInputError(
            f"{source.uri}: edge type {str(edge_type)!r} has a wrong number of edges",
            found=f"{len(src)} rows in {len(chunks)} files",
            expected=f"{metadata.num_edges[type_id]}",
        )
    defects = find_duplicates(str(edge_type), src, dst)
    if edge_type.src == edge_type.dst:
        defects += find_self_loops(str(edge_type), src, dst)
    return defects


def _check_features(readers: dict[str, FeatureReader], progress: Progress) -> None:
    with progress.step("Checking features", len(readers), "features") as advance:
        for reader in readers.values():
            reader.check()
            advance(1)


def _refusal(defects: list[Defect], destination: Store) -> InvalidInputError:
    return InvalidInputError(
        f"The graph has {len(defects)} kinds of defects that a partitioner cannot work on",
        found="; ".join(defect.sentence() for defect in defects),
        expected="no duplicate and no self-loop edges within an edge type",
        remedy="Remove them, or go on with --on-defect warn: they stay in the graph and the partitioner does"
        f" not see them. The report is {destination.uri_of(artifacts.VALIDATION_REPORT)}.",
    )
