"""The edges that are in no ID map, because validation dropped them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import DroppedEdges, DroppedSelfLoops
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata

SCHEMA = pa.schema([("orig_id", pa.int64()), ("check", pa.string())])
CHECKS = ("duplicate_edges", "self_loop_edges")
ROWS = 1 << 20  # of a row group, and of what is in memory at a time


def write_dropped_edges(task: ArtifactWriter, metadata: GraphMetadata) -> int:
    """Write ``idmap/dropped/edges/<src:rel:dst>.parquet`` for every edge type that has dropped edges.

    Columns: ``orig_id`` (type-wise ID of the input, ascending) and ``check``, for which the edge was
    dropped: ``duplicate_edges`` or ``self_loop_edges``. An edge that is both counts as a self-loop where
    self-loops are dropped.

    Args:
        task: Knows the run, where ``validate`` has been done.
        metadata: The graph's metadata.

    Returns:
        The number of dropped edges.

    Peak memory: 8 bytes a dropped edge, and 30 MiB.
    """
    self_loops = DroppedSelfLoops(task.destination).ids(metadata)
    dropped = DroppedEdges(task.destination).ids(metadata)
    for type_id, ids in dropped.items():
        key = layout.dropped_edge_map(str(metadata.edge_types[type_id]))
        _write(task, key, ids, self_loops.get(type_id, np.empty(0, np.int64)))
    return sum(map(len, dropped.values()))


def _write(
    task: ArtifactWriter, key: str, ids: npt.NDArray[np.int64], self_loops: npt.NDArray[np.int64]
) -> None:
    with task.destination.create(key) as new, pq.ParquetWriter(new.path, SCHEMA) as writer:
        for first in range(0, len(ids), ROWS):
            rows = ids[first : first + ROWS]
            here = np.searchsorted(self_loops, rows)
            is_loop = np.searchsorted(self_loops, rows, side="right") > here
            checks = pa.array(CHECKS).take(pa.array(is_loop.astype(np.int8)))
            writer.write_table(pa.table([rows, checks], schema=SCHEMA))
    task.wrote(new.get_artifact())
