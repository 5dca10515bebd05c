"""Edges that validation was told to drop: they leave the output, and their IDs are kept here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.storage import Store


class DroppedEdges:
    """The edges that ``validate`` has dropped from a run; none where it has not been done there.

    Attributes:
        digests: SHA-256 of the list of each edge type that has one: what a later stage depends on.

    Args:
        destination: Root of the run.
    """

    def __init__(self, destination: Store) -> None:
        self._destination = destination
        self.digests: dict[str, str] = {}
        if destination.exists(artifacts.VALIDATION_REPORT):
            self.digests = destination.read_json(artifacts.VALIDATION_REPORT).get("dropped", {})

    def ids(self, metadata: GraphMetadata) -> dict[int, npt.NDArray[np.int64]]:
        """By edge type ID, ascending type-wise IDs of the dropped edges; only types that have some."""
        return {
            metadata.edge_type_id(edge_type): np.load(
                self._destination.local_copy(artifacts.dropped_edges(edge_type)), allow_pickle=False
            )
            for edge_type in self.digests
        }
