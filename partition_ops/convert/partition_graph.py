"""The graph of one partition, streamed from its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.convert.buckets import Buckets, PartEdges
from partition_ops.convert.context import Conversion
from partition_ops.convert.dgl_format import Column, GraphColumns, Sparse, row_blocks
from partition_ops.convert.loops import mark_foreign, number_marked, to_local
from partition_ops.convert.relabel import Ids, id_dtype
from partition_ops.graph.metadata import GraphMetadata

Counts = npt.NDArray[np.int64]


class PartitionGraph:
    """A partition: inner nodes first, by new ID, then halo nodes, by new ID; edges by type and edge ID.

    Args:
        conversion: The graph.
        buckets: Its edges.
        part: Which partition.

    Attributes:
        num_inner: Number of inner nodes.
        halo: (halo nodes,) int64, new IDs, ascending.
        edge_counts: (edge types,) int64.
        cut_counts: (edge types,) int64, the edges whose sources are halo nodes.

    Peak memory: 4 bytes a node of the graph, 30 bytes a node of the partition.
    """

    def __init__(self, conversion: Conversion, buckets: Buckets, part: int) -> None:
        self.metadata: GraphMetadata = conversion.metadata
        self._part = part
        self._order = conversion.order
        self._first_edge_id = buckets.first_edge_id(part)
        self._begin, self._end = self._order.range_of(part)
        self._edges: PartEdges = buckets.open(part)
        self.num_inner = self._end - self._begin
        self.edge_counts: Counts = buckets.counts[:, part]
        self.cut_counts: Counts = np.zeros(len(self.edge_counts), np.int64)
        nodes = len(self._order.assignment.parts)
        self._local: Ids = np.zeros(nodes, id_dtype(nodes))
        for edge_type_id, rows in self._edges:
            self.cut_counts[edge_type_id] += mark_foreign(rows[0], self._begin, self._end, self._local)
        self.halo: Counts = number_marked(self._local, self.num_inner)

    @property
    def num_edges(self) -> int:
        return int(self.edge_counts.sum())

    @cached_property
    def nodes(self) -> LocalNodes:
        """The nodes by local ID."""
        new = np.concatenate([np.arange(self._begin, self._end), self.halo])
        old = self._order.old_ids[new].astype(np.int64)
        offsets = np.array(self.metadata.node_offsets)
        types = np.searchsorted(offsets, old, side="right") - 1
        parts = self._order.assignment.parts[old].astype(np.int64)
        return LocalNodes(new, old - offsets[types], types.astype(np.int32), parts, self.num_inner)

    @cached_property
    def edge_ids_by_type(self) -> dict[str, Column]:
        """int64 type-wise IDs, in the input graph, of the edges of each type; ascending."""
        return {
            str(edge_type): self._edge_column(2, type_id)
            for type_id, edge_type in enumerate(self.metadata.edge_types)
        }

    def columns(self) -> GraphColumns:
        """What ``graph.dgl`` holds."""
        nodes = self.nodes
        node_data = {
            "_ID": Column.of(nodes.new_ids),
            "orig_id": Column.of(nodes.orig_ids),
            "part_id": Column.of(nodes.parts),
            "inner_node": Column.of((np.arange(len(nodes.new_ids)) < self.num_inner).astype(np.uint8)),
        }
        edge_data = {
            "_ID": Column.count(self._first_edge_id, self.num_edges),
            "orig_id": self._edge_column(2),
            "inner_edge": Column.constant(1, np.uint8, self.num_edges),
        }
        if not self.metadata.is_homogeneous:
            node_data["_TYPE"] = Column.of(nodes.type_ids)
            edge_data["_TYPE"] = Column(np.dtype(np.int32), (self.num_edges,), self._edge_types)
        coo = Sparse("coo", (self._made(0, self._to_local), self._edge_column(1)))
        return GraphColumns(len(nodes.new_ids), [coo], node_data, edge_data)

    def _to_local(self, new_ids: Ids) -> Counts:
        found: Counts = to_local(new_ids, self._begin, self._end, self._local)
        return found

    def _edge_column(self, row: int, type_id: int | None = None) -> Column:
        return self._made(row, lambda ids: ids, type_id)

    def _made(self, row: int, make: Callable[[Ids], Ids], type_id: int | None = None) -> Column:
        """int64 values made of one row of the buckets."""
        count = self.num_edges if type_id is None else int(self.edge_counts[type_id])

        def blocks() -> Iterator[Ids]:
            for edge_type_id, rows in self._edges:
                if type_id in (None, edge_type_id):
                    for begin, end in row_blocks(rows.shape[1], rows.shape[1] * 8):
                        yield make(rows[row, begin:end]).astype(np.int64, copy=False)

        return Column(np.dtype(np.int64), (count,), blocks)

    def _edge_types(self) -> Iterator[npt.NDArray[Any]]:
        for type_id, count in enumerate(self.edge_counts.tolist()):
            yield from Column.constant(type_id, np.int32, count).blocks()


@dataclass(frozen=True)
class LocalNodes:
    """The nodes of a partition by local ID.

    Attributes:
        new_ids: (nodes,) int64.
        orig_ids: (nodes,) int64, type-wise IDs of the input graph.
        type_ids: (nodes,) int32.
        parts: (nodes,) int64, the partition that owns each.
        num_inner: The inner nodes come first.
    """

    new_ids: Counts
    orig_ids: Counts
    type_ids: npt.NDArray[np.int32]
    parts: Counts
    num_inner: int

    def inner_ids_by_type(self, metadata: GraphMetadata) -> dict[str, Counts]:
        """Type-wise IDs, in the input graph, of the inner nodes of each type; ascending."""
        ends = np.searchsorted(self.type_ids[: self.num_inner], np.arange(len(metadata.node_types) + 1))
        pieces = pairwise(ends.tolist())
        return {name: self.orig_ids[a:b] for name, (a, b) in zip(metadata.node_types, pieces, strict=True)}

    def count_by_type(self, types: int) -> tuple[Counts, Counts]:
        """(types,) int64 each, numbers of inner and halo nodes."""
        inner, halo = self.type_ids[: self.num_inner], self.type_ids[self.num_inner :]
        return np.bincount(inner, minlength=types), np.bincount(halo, minlength=types)
