"""The partition config: the JSON file that ``dgl.distributed.load_partition`` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.tasks import (
    CONFIG_TASK,
    ArtifactWriter,
    StageResult,
    forget_task,
    input_objects,
    part_task,
    read_record,
    run_task,
    stored_objects,
)
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.storage import Store
from partition_ops.storage.store import REQUESTS
from partition_ops.system.json_documents import check_document
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Progress

Counts = npt.NDArray[np.int64]
Ranges = list[list[list[int]]]


def write_partition_config(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``partitions/<graph>.json`` once every partition is there.

    Ranges of new IDs tile the ID space by partition and by type inside a partition; a type that a
    partition has nothing of gets ``[x, x]``.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been gathered.
        progress: Not used, the task takes no time.

    Returns:
        The key of the file.

    Raises:
        InvalidInputError: A partition is missing, or was built while the input changed.
    """
    return write_config(Conversion(config, source, destination))


def write_config(conversion: Conversion) -> StageResult:
    """As `write_partition_config`."""
    metadata, destination = conversion.metadata, conversion.destination
    parts = range(conversion.num_parts)
    _check_input(conversion)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        key = layout.partition_config(metadata.graph_name)
        edges = _edge_counts(conversion)
        task.write_json(
            key, partition_document(metadata, conversion.order.assignment, edges, conversion.config.num_hops)
        )
        return {"partition_config": key, "num_parts": conversion.num_parts}

    return run_task(
        CONFIG_TASK,
        destination,
        options=conversion.config.options(),
        inputs=conversion.inputs[:1],  # metadata.json, which names the graph
        after=["partition", *map(part_task, parts)],
        work=work,
    )


def _check_input(conversion: Conversion) -> None:
    """Refuse partitions of an input that has changed while they were built, and forget them.

    Raises:
        InvalidInputError: So it is; the message names the files.
    """
    now = {entry.key: entry for entry in input_objects(conversion.source, conversion.metadata)}
    changed: set[str] = set()
    for part in range(conversion.num_parts):
        read = stored_objects(read_record(conversion.destination, part_task(part)))
        other = {entry.key for entry in read if now.get(entry.key) != entry}
        if other:
            forget_task(conversion.destination, part_task(part))
        changed |= other
    if changed:
        raise InvalidInputError(
            f"The input {conversion.source.uri} has changed while its partitions were built",
            found=f"another size or time of {some_of(sorted(changed))}",
            expected="files that stay as they are until the job has ended",
            remedy="Do it again with the files as they are now; write new ones beside them, not over them.",
        )


def partition_document(
    metadata: GraphMetadata, assignment: Assignment, edges: Counts, num_hops: int = 1
) -> dict[str, Any]:
    """The partition config, with the partitions in folders beside it.

    Args:
        metadata: The graph's metadata.
        assignment: The partition of every node.
        edges: (edge types, partitions) int64, the number of edges that each partition owns; fewer than those
            of the input where validation has dropped some.
        num_hops: How far the halos go.
    """
    edge_types = [str(edge_type) for edge_type in metadata.edge_types]
    document = {
        "graph_name": metadata.graph_name,
        "num_nodes": sum(metadata.num_nodes),
        "num_edges": int(edges.sum()),
        "part_method": assignment.algo_name,
        "num_parts": assignment.num_parts,
        "halo_hops": num_hops,
        "node_map": dict(zip(metadata.node_types, _ranges(_node_counts(metadata, assignment)), strict=True)),
        "edge_map": dict(zip(edge_types, _ranges(edges), strict=True)),
        "ntypes": {name: type_id for type_id, name in enumerate(metadata.node_types)},
        "etypes": {name: type_id for type_id, name in enumerate(edge_types)},
    }
    for part in range(assignment.num_parts):
        document[f"part-{part}"] = {
            "node_feats": f"part{part}/node_feat.dgl",
            "edge_feats": f"part{part}/edge_feat.dgl",
            "part_graph": f"part{part}/graph.dgl",
        }
    return document


def _edge_counts(conversion: Conversion) -> Counts:
    """(edge types, partitions) int64, the number of edges of each type that each partition owns."""
    edge_types = [str(edge_type) for edge_type in conversion.metadata.edge_types]

    def of_part(part: int) -> list[int]:
        key = layout.partition_stats(part)
        stats = conversion.destination.read_json(key)
        check_document(stats, "partition_stats", where=conversion.destination.uri_of(key))
        return [stats["edges"][name] for name in edge_types]

    rows = [*map_in_threads(of_part, range(conversion.num_parts), workers=REQUESTS)]
    return np.array(rows, np.int64).reshape(conversion.num_parts, len(edge_types)).T


def _node_counts(metadata: GraphMetadata, assignment: Assignment) -> Counts:
    """(node types, partitions) int64."""
    pieces = np.split(assignment.parts, metadata.node_offsets[1:-1])
    return np.stack([np.bincount(piece, minlength=assignment.num_parts) for piece in pieces])


def _ranges(counts: Counts) -> Ranges:
    """Half-open ranges of new IDs by type and partition, from (types, partitions) counts."""
    ends = np.cumsum(counts.T).reshape(counts.T.shape).T
    return [
        [[int(end - count), int(end)] for count, end in zip(row_counts, row_ends, strict=True)]
        for row_counts, row_ends in zip(counts, ends, strict=True)
    ]
