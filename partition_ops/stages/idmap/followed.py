"""Carry-over maps of a run that has followed an earlier one, from the two assignments alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_parts
from partition_ops.artifacts.graph_counts import GraphCounts
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.artifacts.verified_run import keeps_old_ids, open_earlier_run, read_migration
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.idmap.carry_over import ROWS, write_map
from partition_ops.storage import Artifact, Store
from partition_ops.system.parallel import map_in_threads

Ids = npt.NDArray[np.int64]


def write_carry_over(task: ArtifactWriter, metadata: GraphMetadata) -> int:
    """Write ``idmap/carry_over/nodes/<type>.parquet`` if the run has followed one whose node IDs still hold.

    Columns as those of `carry_over`; only nodes that were there before have a row.

    Args:
        task: Knows the run.
        metadata: The graph's metadata.

    Returns:
        The number of rows.

    Raises:
        InvalidInputError: The earlier run is not there any more.

    Peak memory: 8 bytes a node of the graph, and 64 bytes a node of the largest types, one for each core.
    """
    migration = read_migration(task.destination)
    if migration is None or not keeps_old_ids(migration):
        return 0
    now = GraphCounts.of_graph(metadata)
    with open_earlier_run(task.destination) as run:
        before = GraphCounts.of_run(run)
        old, new = _Numbering.read(run, before.nodes), _Numbering.read(task.destination, now.nodes)

    def write(name: str) -> Artifact:
        return write_map(task.destination, layout.carry_over_map(name), _batches(old, new, name))

    for written in map_in_threads(write, before.nodes):
        task.wrote(written)
    return sum(before.nodes.values())


@dataclass(frozen=True)
class _Numbering:
    """New IDs of a run: contiguous by partition, by type inside it, and in the old order inside a type.

    Attributes:
        parts: By node type, (nodes,) int32, the partition of each node.
        sizes: By node type, (parts,) int64, how many each partition has.
    """

    parts: dict[str, npt.NDArray[np.int32]]
    sizes: dict[str, Ids]

    @classmethod
    def read(cls, run: Store, counts: Mapping[str, int]) -> _Numbering:
        folder = run.child(layout.ASSIGNMENT)
        num_parts = int(folder.read_json(layout.ASSIGNMENT_META)["num_parts"])
        everything = read_parts(folder, counts, num_parts)
        places = np.cumsum(list(counts.values()))[:-1]
        parts = dict(zip(counts, np.split(everything, places), strict=True))
        return cls(parts, {name: np.bincount(one, minlength=num_parts) for name, one in parts.items()})

    def type_wise(self, name: str) -> tuple[Ids, Ids]:
        """(nodes,) int64 each: original IDs by type-wise new ID, and the inverse."""
        order = np.argsort(self.parts[name], kind="stable")
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return order, inverse

    def homogeneous(self, name: str, type_new_ids: Ids) -> Ids:
        """New IDs of type-wise new IDs of a type."""
        mine = self.sizes[name]
        type_wise = np.cumsum(mine) - mine
        names = list(self.sizes)
        of_parts = np.sum([self.sizes[other] for other in names], axis=0)
        begins = np.cumsum(of_parts) - of_parts
        for other in names[: names.index(name)]:
            begins = begins + self.sizes[other]
        part = np.searchsorted(np.cumsum(mine), type_new_ids, side="right")
        found: Ids = type_new_ids + (begins - type_wise)[part]
        return found


def _batches(old: _Numbering, new: _Numbering, name: str) -> Iterator[tuple[Ids, Ids, Ids, Ids]]:
    """The columns of the map of a type, in blocks."""
    originals, _ = old.type_wise(name)
    _, found = new.type_wise(name)
    for first in range(0, len(originals), ROWS):
        old_typed = np.arange(first, min(len(originals), first + ROWS))
        typed = found[originals[old_typed]]
        yield old.homogeneous(name, old_typed), old_typed, new.homogeneous(name, typed), typed
