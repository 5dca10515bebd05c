"""Read the edges of each partition: the edge files of ``pm_dglpart``, and the file of removed edges."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.output_nodes import OutputOrder
from partition_ops.formats.parmetis.text_files import REMOVED_EDGE_COLUMNS
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.system.compilation import compiled

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class EdgeRows:
    """Edges of the input graph."""

    rows: Ids  # (4, n) int64: homogeneous IDs of source and destination, type-wise edge ID, edge type ID
    attributes: Values  # (n, attributes); no columns if they are not read

    def take(self, which: Any) -> EdgeRows:
        """Return some of the edges, by indices or mask."""
        return EdgeRows(self.rows[:, which], self.attributes[which])

    def starts(self, edge_types: int) -> Ids:
        """Return (edge types + 1,) int64, where each type begins; the edges must be sorted by type."""
        found: Ids = np.searchsorted(self.rows[3], np.arange(edge_types + 1))
        return found


class EdgeRowChecks:
    """Checks of rows with the columns `REMOVED_EDGE_COLUMNS` against a graph. Usable from several threads.

    Peak memory: 1 byte an edge of the graph.
    """

    def __init__(self, metadata: GraphMetadata) -> None:
        self.metadata = metadata
        self._lock = threading.Lock()
        self._seen = np.zeros(metadata.edge_offsets[-1], np.bool_)
        self._edge_offsets = np.array(metadata.edge_offsets)

    def check(self, table: TextTable, block: TextBlock) -> None:
        """Check the rows of a block, and that no edge occurs twice in the blocks checked.

        Raises:
            InvalidInputError: A row is wrong; names the file and the line.
        """
        self._check_original(table, block)
        rows = np.stack([block.columns[name] for name in REMOVED_EDGE_COLUMNS])
        self._note(table, block, self.homogeneous(rows))

    def missing(self) -> int:
        """Return the number of edges of the graph that no block had."""
        return int(len(self._seen) - np.count_nonzero(self._seen))

    def require_all(self, *, expected: str | None = None, remedy: str) -> None:
        """Raise an error if an edge of the graph was in no block; it names the first one."""
        if self._seen.all():
            return
        edge = int(np.flatnonzero(~self._seen)[0])
        type_id = int(np.searchsorted(self._edge_offsets, edge, side="right")) - 1
        name = f"edge {edge - self._edge_offsets[type_id]} of type {str(self.metadata.edge_types[type_id])!r}"
        raise InvalidInputError(
            f"{self.missing()} edges of the schema are in no file",
            found=f"for example, no {name}",
            expected=expected,
            remedy=remedy,
        )

    def homogeneous(self, rows: Ids) -> Ids:
        """Return (n,) int64, homogeneous edge IDs of the input graph."""
        ids: Ids = self._edge_offsets[rows[3]] + rows[2]
        return ids

    def _check_original(self, table: TextTable, block: TextBlock) -> None:
        src, dst, edge, type_ids = (block.columns[name] for name in REMOVED_EDGE_COLUMNS)
        edge_types = self.metadata.edge_types
        table.require(
            block,
            (type_ids >= 0) & (type_ids < len(edge_types)),
            "there is no such edge type",
            lambda row: f"<edge_type> 0 to {len(edge_types) - 1}",
        )
        counts = np.array(self.metadata.num_edges)[type_ids]
        table.require(
            block,
            (edge >= 0) & (edge < counts),
            "the edge ID is outside the range of its edge type",
            lambda row: f"0 to {counts[row] - 1} for the edge type {str(edge_types[type_ids[row]])!r}",
        )
        self._check_end(table, block, src, type_ids, "source")
        self._check_end(table, block, dst, type_ids, "destination")

    def _check_end(self, table: TextTable, block: TextBlock, ids: Ids, type_ids: Ids, role: str) -> None:
        names = [t.src if role == "source" else t.dst for t in self.metadata.edge_types]
        ends = np.array([self.metadata.node_type_id(name) for name in names])[type_ids]
        offsets = np.array(self.metadata.node_offsets)
        table.require(
            block,
            (ids >= offsets[ends]) & (ids < offsets[ends + 1]),
            f"the {role} of the edge is not a node of the type that its edge type names",
            lambda row: (
                f"a {names[type_ids[row]]!r}, {offsets[ends[row]]} to {offsets[ends[row] + 1] - 1},"
                f" for the edge type {str(self.metadata.edge_types[type_ids[row]])!r}"
            ),
        )

    def _note(self, table: TextTable, block: TextBlock, edges: Ids) -> None:
        with self._lock:
            again = mark_new(edges, self._seen)
        if again >= 0:
            good = np.arange(len(edges)) != again
            table.require(
                block, good, "the edge occurs twice", lambda row: "every edge in one row of one file"
            )


class EdgeLoader:
    """Reads and checks the edges of partitions. Usable from several threads.

    Args:
        metadata: Metadata of the input graph.
        order: New IDs of all nodes.
        width: Number of attributes of every edge.
        removed: Edges that ParMETIS did not get; they join the partitions of their destinations.

    Raises:
        InvalidInputError: From every method: a number is impossible; names the file and the line.

    Peak memory: 1 byte an edge of the graph, 40 bytes a removed edge, 80 bytes an edge of a partition and
    twice its attributes.
    """

    def __init__(
        self, metadata: GraphMetadata, order: OutputOrder, *, width: int, removed: TextTable | None
    ) -> None:
        self.order = order
        self.checks = EdgeRowChecks(metadata)
        self._width = width
        self._removed = self._read(removed, None) if removed else None
        self.num_removed = self._removed.rows.shape[1] if self._removed else 0

    def load(self, part: int, table: TextTable) -> EdgeRows:
        """Return the edges of a partition, sorted by edge type and edge ID."""
        found = self._read(table, part)
        if self._removed is not None:
            back = self._removed.take(self.order.assignment.parts[self._removed.rows[1]] == part)
            found = EdgeRows(
                np.concatenate([found.rows, back.rows], axis=1),
                np.concatenate([found.attributes, back.attributes]),
            )
        ids = self.checks.homogeneous(found.rows)
        in_order = bool((ids[1:] > ids[:-1]).all())  # in files of our own pm-dglpart
        return found if in_order else found.take(np.argsort(ids, kind="stable"))

    def _read(self, table: TextTable, part: int | None) -> EdgeRows:
        rows, attributes = [np.empty((4, 0), np.int64)], [np.empty((0, self._width), table.dtype)]
        for block in table.blocks():
            self.checks.check(table, block)
            if part is not None:
                self._check_new_ids(table, block, part)
            rows.append(np.stack([block.columns[name] for name in REMOVED_EDGE_COLUMNS]))
            if block.attributes is not None:
                attributes.append(block.attributes)
        found = np.concatenate(rows, axis=1)
        values = np.concatenate(attributes) if table.dtype else np.empty((found.shape[1], 0))
        return EdgeRows(found, values)

    def _check_new_ids(self, table: TextTable, block: TextBlock, part: int) -> None:
        self._check_new_id(table, block, "src_id", "orig_src_id")
        self._check_new_id(table, block, "dst_id", "orig_dst_id")
        owners = self.order.assignment.parts[block.columns["orig_dst_id"]]
        table.require(
            block,
            owners == part,
            f"the edge is in the file of partition {part}, but its destination is not",
            lambda row: f"the edge in the file of partition {owners[row]}, which has its destination",
        )

    def _check_new_id(self, table: TextTable, block: TextBlock, new: str, old: str) -> None:
        known = self.order.new_ids[block.columns[old]]
        table.require(
            block,
            block.columns[new] == known,
            f"<{new}> and <{old}> contradict the node files",
            lambda row: f"<{new}> {known[row]}",
        )


@compiled
def mark_new(ids: npt.NDArray[Any], seen: npt.NDArray[Any]) -> int:
    """Mark IDs as seen, up to the first that was already.

    Args:
        ids: (n,) int64, inside the range of ``seen``.
        seen: (IDs,) bool, written.

    Returns:
        The row of that ID, or -1.
    """
    for row in range(len(ids)):
        if seen[ids[row]]:
            return row
        seen[ids[row]] = True
    return -1
