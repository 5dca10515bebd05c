"""The graph of one partition: its nodes, its edges as streamed columns, and the in-edges of its halo."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.new_ids import Ids, id_dtype
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.formats.columns import Column, row_blocks
from partition_ops.stages.convert.buckets import Buckets, PartEdges
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.edge_loops import (
    LEFT_TO,
    leave,
    mark_foreign,
    number_marked,
    reach,
    to_local,
)
from partition_ops.stages.convert.options import ConvertConfig

Counts = npt.NDArray[np.int64]
SRC, DST, ORIG_ID, EDGE_ID, TYPE_ID = range(5)  # rows of `OuterEdges`


class PartitionGraph:
    """A partition: inner nodes first, by new ID, then halo nodes, by new ID; edges by type and edge ID.

    With a halo of more than one hop, or with out-edges, edges of other partitions follow its own. Without a
    halo, the graph has only the edges between inner nodes; the others keep their IDs.

    Args:
        conversion: The graph.
        buckets: Its edges.
        part: Which partition.

    Attributes:
        num_inner: Number of inner nodes.
        first_edge_id: New ID of its first edge.
        halo: (halo nodes,) int64, new IDs, ascending.
        fetched: The same without nodes that are only destinations of edges that leave the partition: no
            inner node gets messages from them.
        edge_counts: (edge types,) int64, the edges that the partition owns.
        cut_counts: (edge types,) int64, those whose sources are in other partitions.
        outer: The edges in the graph that other partitions own.

    Peak memory: 4 bytes a node of the graph (8 beyond 2^31, 1 more for several hops), 38 bytes a node of the
    partition.
    """

    def __init__(self, conversion: Conversion, buckets: Buckets, part: int) -> None:
        self.metadata: GraphMetadata = conversion.metadata
        self._config = conversion.config
        self._order = conversion.order
        self.first_edge_id = buckets.first_edge_id(part)
        self._begin, self._end = self._order.range_of(part)
        self._edges: PartEdges = buckets.open(part)
        self.num_inner = self._end - self._begin
        self.edge_counts: Counts = buckets.counts[:, part]
        self.cut_counts: Counts = np.zeros(len(self.edge_counts), np.int64)
        nodes = len(self._order.assignment.parts)
        self._local: Ids = np.zeros(nodes, id_dtype(nodes))
        for edge_type_id, rows in self._edges:
            self.cut_counts[edge_type_id] += mark_foreign(rows[0], self._begin, self._end, self._local)
        if self._config.num_hops == 0:  # no halo
            self._local[:] = 0
        self.outer = outer_edges(buckets, part, self._order.starts, self._local, self._config)
        left_to = np.flatnonzero(self._local == LEFT_TO)
        self.halo: Counts = number_marked(self._local, self.num_inner)
        self.fetched = np.setdiff1d(self.halo, left_to, assume_unique=True) if len(left_to) else self.halo

    @property
    def graph_counts(self) -> Counts:
        """(edge types,) int64, the edges of the partition that are in its graph."""
        return self.edge_counts - self.cut_counts if self._config.num_hops == 0 else self.edge_counts

    @property
    def num_edges(self) -> int:
        """Number of edges in the graph."""
        return int(self.graph_counts.sum()) + self.outer.count

    @cached_property
    def nodes(self) -> LocalNodes:
        """The nodes by local ID."""
        new = np.concatenate([np.arange(self._begin, self._end), self.halo])
        old = self._order.old_ids[new].astype(np.int64)
        offsets = np.array(self.metadata.node_offsets)
        types = np.searchsorted(offsets, old, side="right") - 1
        parts = self._order.assignment.parts[old].astype(np.int64)
        return LocalNodes(new, old - offsets[types], types.astype(np.int32), parts, self.num_inner)

    def nodes_by_size_class(self, classes: npt.NDArray[np.uint8]) -> dict[str, list[int]]:
        """Return the numbers of inner and `fetched` nodes by the number of bits of their degree.

        Args:
            classes: (nodes of the graph,) by homogeneous ID of the input graph.
        """
        count = int(classes.max(initial=0)) + 1
        ranges = {"inner": np.arange(self._begin, self._end), "halo": self.fetched}
        return {
            name: np.bincount(classes[self._order.old_ids[ids]], minlength=count).tolist()
            for name, ids in ranges.items()
        }

    def count_by_type(self) -> tuple[Counts, Counts]:
        """Return the numbers of inner and of `fetched` nodes by type; (types,) int64 each."""
        types, inner = len(self.metadata.node_types), self.nodes.type_ids[: self.num_inner]
        halo = self.nodes.type_ids[self.num_inner :][np.isin(self.halo, self.fetched, assume_unique=True)]
        return np.bincount(inner, minlength=types), np.bincount(halo, minlength=types)

    @cached_property
    def edge_ids_by_type(self) -> dict[str, Column]:
        """int64 type-wise IDs, in the input graph, of the edges of each type; ascending."""
        return {
            str(edge_type): self._own_ids(type_id, int(self.edge_counts[type_id]))
            for type_id, edge_type in enumerate(self.metadata.edge_types)
        }

    def edge_digests(self) -> list[str]:
        """Return SHA-256 of sources, destinations and IDs of the partition's own edges, as in the buckets."""
        digests = [hashlib.sha256(self._edges.dtype.str.encode()) for _ in range(3)]
        for _, rows in self._edges:
            for digest, row in zip(digests, rows, strict=True):
                digest.update(np.ascontiguousarray(row).data)
        return [digest.hexdigest() for digest in digests]

    def outer_digests(self) -> list[str]:
        """Return SHA-256 of each column of the edges that other partitions own."""
        found = []
        for column in (SRC, DST, ORIG_ID, EDGE_ID, TYPE_ID):
            digest = hashlib.sha256()
            for block in self.outer.blocks(column):
                digest.update(np.ascontiguousarray(block).data)
            found.append(digest.hexdigest())
        return found

    def destinations(self, edge_type_id: int) -> Iterator[Ids]:
        """Yield local IDs of the destinations of the own edges of one type, in blocks."""
        yield from (rows[1] for type_id, rows, _ in self._rows() if type_id == edge_type_id)

    def columns(self) -> dict[str, Column]:
        """Return the columns of the groups ``nodes`` and ``edges``; see `Partition`."""
        nodes = self.nodes
        types = Column(np.dtype(np.int32), (self.num_edges,), self._edge_types)
        return {
            "nodes/new_id": Column.of(nodes.new_ids),
            "nodes/orig_id": Column.of(nodes.orig_ids),
            "nodes/type_id": Column.of(nodes.type_ids),
            "nodes/part_id": Column.of(nodes.parts),
            "edges/src": self._column(lambda rows, first: self._to_local(rows[0]), SRC, self._to_local),
            "edges/dst": self._column(lambda rows, first: rows[1], DST, self._to_local),
            "edges/new_id": self._column(
                lambda rows, first: np.arange(first, first + rows.shape[1]), EDGE_ID
            ),
            "edges/orig_id": self._column(lambda rows, first: rows[2], ORIG_ID),
            "edges/type_id": types,
        }

    def _to_local(self, new_ids: Ids) -> Counts:
        found: Counts = to_local(new_ids, self._begin, self._end, self._local)
        return found

    def _rows(self) -> Iterator[tuple[int, Ids, int]]:
        """Yield the partition's edges in blocks: type ID, (3, n) as in the buckets, new ID of the first."""
        first = self.first_edge_id
        for type_id, rows in self._edges:
            for begin, end in row_blocks(rows.shape[1], rows.shape[1] * 8):
                yield type_id, rows[:, begin:end], first + begin
            first += rows.shape[1]

    def _column(
        self,
        make: Callable[[Ids, int], Ids],
        outer: int,
        make_outer: Callable[[Ids], Ids] = lambda ids: ids,
    ) -> Column:
        """Return int64 values of all edges: made from those in the buckets, then from the outer ones."""

        def blocks() -> Iterator[Ids]:
            for _, rows, first in self._rows():
                values = make(rows, first).astype(np.int64, copy=False)
                if self._config.num_hops == 0:
                    values = values[(rows[0] >= self._begin) & (rows[0] < self._end)]
                yield values
            for found in self.outer.blocks(outer):
                yield make_outer(found)

        return Column(np.dtype(np.int64), (self.num_edges,), blocks)

    def _own_ids(self, type_id: int, count: int) -> Column:
        def blocks() -> Iterator[Ids]:
            yield from (
                rows[2].astype(np.int64, copy=False) for one, rows, _ in self._rows() if one == type_id
            )

        return Column(np.dtype(np.int64), (count,), blocks)

    def _edge_types(self) -> Iterator[npt.NDArray[Any]]:
        for type_id, count in enumerate(self.graph_counts.tolist()):
            yield from Column.constant(type_id, np.int32, count).blocks()
        for found in self.outer.blocks(TYPE_ID):
            yield found.astype(np.int32)


@dataclass(frozen=True)
class LocalNodes:
    """The nodes of a partition by local ID."""

    new_ids: Counts  # (nodes,) int64
    orig_ids: Counts  # (nodes,) int64, type-wise IDs of the input graph
    type_ids: npt.NDArray[np.int32]  # (nodes,) int32
    parts: Counts  # (nodes,) int64, the partition that owns each
    num_inner: int  # the inner nodes come first

    def inner_ids_by_type(self, metadata: GraphMetadata) -> dict[str, Counts]:
        """Return by type the type-wise IDs, in the input graph, of the inner nodes; ascending."""
        ends = np.searchsorted(self.type_ids[: self.num_inner], np.arange(len(metadata.node_types) + 1))
        pieces = pairwise(ends.tolist())
        return {name: self.orig_ids[a:b] for name, (a, b) in zip(metadata.node_types, pieces, strict=True)}


@dataclass
class OuterEdges:
    """Edges of other partitions in the graph of this one, in an unnamed file."""

    count: int = 0  # how many there are
    _sizes: list[int] = field(default_factory=list)
    _stream: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def add(self, rows: Counts) -> None:
        """Append (5, n) int64: new IDs of source and destination, original and new edge ID, edge type ID."""
        self._stream.write(rows.data)
        self._sizes.append(rows.shape[1])
        self.count += rows.shape[1]

    def blocks(self, row: int) -> Iterator[Counts]:
        """Yield one of the rows over all edges that were added, in blocks."""
        if not self.count:
            return
        self._stream.flush()
        mapped = np.memmap(self._stream, np.int64, "r")
        begin = 0
        for size in self._sizes:
            found = mapped[begin + row * size : begin + (row + 1) * size]
            for first, end in row_blocks(size, size * 8):
                yield found[first:end]
            begin += 5 * size


def outer_edges(buckets: Buckets, part: int, starts: Counts, local: Ids, config: ConvertConfig) -> OuterEdges:
    """Collect the edges in the graph of a partition that other partitions own.

    First come the in-edges of halo nodes that are less than ``num_hops`` hops away, by hop and new edge ID.
    With ``out_edges``, all other edges follow that leave the partition, by new edge ID. The buckets of all
    other partitions are read once for each hop above the first, and once for the edges that leave.

    Args:
        buckets: The edges of all partitions.
        part: Which partition.
        starts: (partitions + 1,) int64, first new ID of each partition.
        local: (nodes,) by new ID, 1 for sources of own edges in other partitions; afterwards 1 for all halo
            nodes, except `LEFT_TO` for those that are only destinations of edges that leave.
        config: How far the halo goes, and whether edges that leave belong to it.

    Returns:
        The edges. Peak memory: 1 byte a node, and 60 bytes an edge of a segment; disk: 40 bytes each.
    """
    found = OuterEdges()
    hops = (local != 0).astype(np.uint8)
    inner = int(starts[part]), int(starts[part + 1])

    def collect(choose: Callable[[Ids, Ids, int], Counts]) -> int:
        """Add the chosen edges of all other partitions; return how many."""
        before = found.count
        for other in range(len(starts) - 1):
            if other == part:
                continue
            first, edge_id = int(starts[other]), buckets.first_edge_id(other)
            for type_id, rows in buckets.open(other):
                which = choose(rows[0], rows[1], first)
                if len(which):
                    dst = rows[1, which].astype(np.int64) + first
                    types = np.full(len(which), type_id)
                    found.add(np.stack([rows[0, which], dst, rows[2, which], which + edge_id, types]))
                edge_id += rows.shape[1]
        return found.count - before

    for hop in range(2, config.num_hops + 1):
        if not collect(partial(reach, inner=inner, hop=hop, hops=hops, local=local)):
            break  # nothing is further away
    if config.out_edges:
        collect(partial(leave, inner=inner, num_hops=config.num_hops, hops=hops, local=local))
    return found
