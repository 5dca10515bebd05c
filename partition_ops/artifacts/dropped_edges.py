"""Edges that validation listed: those to drop, and those to hide from the partitioner."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]


class _ListedEdges:
    """The edges of one kind of list; none if ``validate`` has not been done.

    Attributes:
        digests: SHA-256 of the list of each edge type that has one; later stages depend on it.

    Args:
        destination: Root of the run.
    """

    kind: ClassVar[str]

    def __init__(self, destination: Store) -> None:
        self._destination = destination
        self.digests: dict[str, str] = {}
        if destination.exists(layout.VALIDATION_REPORT):
            self.digests = read_validation_report(destination).get(self.kind, {})

    def ids(self, metadata: GraphMetadata) -> dict[int, Ids]:
        """Return ascending type-wise IDs by edge type ID, for types that have some. Memory: 8 bytes each."""
        return {
            metadata.edge_type_id(edge_type): np.load(
                self._destination.local_copy(layout.edge_list(self.kind, edge_type)), allow_pickle=False
            )
            for edge_type in self.digests
        }


class DroppedEdges(_ListedEdges):
    """The edges that leave the output."""

    kind = layout.DROPPED


class DroppedSelfLoops(_ListedEdges):
    """The dropped edges that are self-loops; the other dropped edges are duplicates."""

    kind = layout.DROPPED_SELF_LOOPS


class ExcludedEdges(_ListedEdges):
    """The edges that stay in the output but are hidden from the partitioner."""

    kind = layout.EXCLUDED


class HiddenEdges:
    """All edges that are hidden from the partitioner: those dropped, and those excluded.

    Attributes:
        digests: Of the lists of both.

    Args:
        destination: Root of the run.
    """

    def __init__(self, destination: Store) -> None:
        self._lists = DroppedEdges(destination), ExcludedEdges(destination)
        self.digests = {edges.kind: edges.digests for edges in self._lists}

    def ids(self, metadata: GraphMetadata) -> dict[int, Ids]:
        """Return ascending type-wise IDs by edge type ID; no edge is on both lists."""
        dropped, excluded = (edges.ids(metadata) for edges in self._lists)
        empty = np.empty(0, np.int64)
        return {
            type_id: np.sort(np.concatenate([dropped.get(type_id, empty), excluded.get(type_id, empty)]))
            for type_id in {*dropped, *excluded}
        }
