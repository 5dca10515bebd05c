"""The rows of other partitions that a trainer reads most, and what a cache of them saves.

SALIENT++ (MLSys 2023) chooses cached rows by such probabilities, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.traffic.model import Mask, Parts, Singles, Traffic

Ids = npt.NDArray[np.int64]
CURVE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares


@dataclass(frozen=True)
class Cacheable:
    """The nodes whose rows can be cached: those of types with features."""

    nodes: Mask  # (nodes,) bool by homogeneous ID of the input
    parts: Parts  # (nodes,) int32, the partition of each
    own: Ids  # (parts,) int64, number of them in each partition

    @classmethod
    def of(cls, metadata: GraphMetadata, assignment: Assignment) -> Cacheable:
        """Return them for the features of a graph."""
        having = {feature.type_name for feature in metadata.node_features}
        of_type = [name in having for name in metadata.node_types]
        nodes = np.repeat(np.array(of_type, np.bool_), metadata.num_nodes)
        own = np.bincount(assignment.parts[nodes], minlength=assignment.num_parts)
        return cls(nodes, assignment.parts, own)

    def room(self, part: int, share: float) -> int:
        """Return the number of rows that a cache of a share of a partition's own rows has."""
        return int(share * int(self.own[part]))

    def remote(self, part: int, reads: Singles) -> Ids:
        """Return the rows of other partitions that the trainer of a partition reads, by homogeneous ID."""
        return np.flatnonzero(self.nodes & (self.parts != part) & (reads > 0))

    def hottest(self, part: int, reads: Singles, share: float) -> Ids:
        """Return the rows that the cache of a partition has.

        Args:
            part: The partition.
            reads: (nodes,) float32, how often its trainer reads each row.
            share: Largest number of rows, as a share of the partition's own.

        Returns:
            Homogeneous IDs of the input, ascending: the rows of other partitions that the trainer reads most,
            and among equals those with the smallest IDs. Peak memory: 25 bytes a node.
        """
        remote = self.remote(part, reads)
        order = np.argsort(-reads[remote], kind="stable")
        return np.sort(remote[order[: self.room(part, share)]])


@dataclass
class CacheCurve:
    """Rows that caches of several shares save."""

    cacheable: Cacheable
    # by partition, the expected rows of an epoch that its trainer finds in the cache, by share
    saved: dict[int, list[float]] = field(default_factory=dict)

    def add(self, part: int, reads: Singles) -> None:
        """Add a trainer; see `TrafficModel.traffic`. Peak memory: 21 bytes a node."""
        found, room = reads[self.cacheable.remote(part, reads)], self.cacheable.room(part, max(CURVE))
        if room < len(found):  # a tenth of the time of a sort of all, with many partitions
            found = np.partition(found, -max(room, 1))[len(found) - room :]
        most = np.sort(found)[::-1]
        sums = np.concatenate([[0.0], np.cumsum(most, dtype=np.float64)])
        rooms = (min(self.cacheable.room(part, share), len(most)) for share in CURVE)
        self.saved[part] = [float(sums[room]) for room in rooms]

    def figures(self, traffic: Traffic) -> list[dict[str, Any]]:
        """Return for each share the rows a batch that the mean and the slowest trainer fetch, as JSON."""
        parts = np.flatnonzero(traffic.batches)
        batches, rows = traffic.batches[parts], traffic.remote_rows[parts]
        found = []
        for number, share in enumerate(CURVE):
            saved = np.array([self.saved[part][number] for part in parts.tolist()])
            left = np.maximum(rows - saved, 0) / batches
            found.append(
                {
                    "share": share,
                    "remote_rows_per_batch": round(float(left.mean()), 1) if len(left) else 0.0,
                    "slowest": round(float(left.max(initial=0)), 1),
                }
            )
        return found
