"""Edges that validation listed: those to drop, and those to hide from the partitioner."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.table_files import parquet_file
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]


class ListedEdges:
    """The edges on lists of some kinds; none if ``validate`` has not been done.

    Attributes:
        digests: By kind, SHA-256 of the list of each edge type that has one; later stages depend on it.

    Args:
        destination: Root of the run.
        kinds: `layout.DROPPED`, the edges that leave the output; `layout.DROPPED_SELF_LOOPS`, those of them
            that are self-loops, while the others are duplicates; `layout.EXCLUDED`, the edges that stay but
            are hidden from the partitioner. No edge is on the lists of two of the kinds that are asked for.
    """

    def __init__(self, destination: Store, *kinds: str) -> None:
        self._destination = destination
        report = {}
        if destination.exists(layout.VALIDATION_REPORT):
            report = read_validation_report(destination)
        self.digests: dict[str, dict[str, str]] = {kind: report.get(kind, {}) for kind in kinds}

    def ids(self, metadata: GraphMetadata) -> dict[int, Ids]:
        """Return ascending type-wise IDs by edge type ID, for types that have some. Memory: 8 bytes each."""
        found: dict[int, Ids] = {}
        for kind, digests in self.digests.items():
            for edge_type in digests:
                path = self._destination.local_copy(layout.edge_list(kind, edge_type))
                ids, type_id = np.load(path, allow_pickle=False), metadata.edge_type_id(edge_type)
                others = found.get(type_id)
                found[type_id] = ids if others is None else np.sort(np.concatenate([others, ids]))
        return found


def num_dropped(output: Store, edge_type: str) -> int:
    """Return the number of edges of a type that validation dropped, according to the export of ID maps."""
    key = layout.dropped_edge_map(edge_type)
    if not output.exists(key):
        return 0
    with parquet_file(output.local_copy(key), output.uri_of(key)) as file:
        return int(file.metadata.num_rows)
