"""The expected output: derived from the input, the assignment and the actions for defects alone.

It does not depend on the order in which ``convert`` numbers the nodes of one type in one partition: that
order is read from the ID maps, after they have been checked to be bijections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.book import Book
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.verification.input_graph import Ids

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ranges:
    """The new IDs of nodes or of edges: contiguous by partition, then by type."""

    counts: Counts  # (parts, types) int64, numbers of nodes or edges

    @cached_property
    def starts(self) -> Counts:
        """(parts, types) int64, first homogeneous new ID of each range."""
        flat = np.cumsum(self.counts.ravel()) - self.counts.ravel()
        return flat.reshape(self.counts.shape)

    @cached_property
    def ends(self) -> Counts:
        """(parts, types) int64, the ID after the last of each range."""
        return self.starts + self.counts

    @cached_property
    def typed_starts(self) -> Counts:
        """(parts, types) int64, first type-wise new ID of each range."""
        return np.cumsum(self.counts, axis=0) - self.counts

    @cached_property
    def part_ends(self) -> Counts:
        """(parts,) int64, the homogeneous new ID after the last of each partition."""
        return np.cumsum(self.counts.sum(axis=1))

    @property
    def total(self) -> int:
        """Number of IDs."""
        return int(self.counts.sum())

    def part(self, part: int) -> tuple[int, int]:
        """Return the half-open range of the homogeneous new IDs of a partition."""
        end = int(self.part_ends[part])
        return end - int(self.counts[part].sum()), end

    def typed(self, part: int, type_id: int) -> slice:
        """Return the range of the type-wise new IDs of one type in a partition."""
        start = int(self.typed_starts[part, type_id])
        return slice(start, start + int(self.counts[part, type_id]))

    def new_ids(self, type_id: int) -> Counts:
        """Return homogeneous new IDs by type-wise new ID, (IDs of the type,) int64."""
        ranges = zip(self.starts[:, type_id], self.ends[:, type_id], strict=True)
        return np.concatenate([np.arange(start, end) for start, end in ranges])

    def parts_of(self, type_id: int) -> Counts:
        """Return partitions by type-wise new ID, (IDs of the type,) int64."""
        return np.repeat(np.arange(len(self.counts)), self.counts[:, type_id])


@dataclass
class ExpectedGraph:
    """The graph of the input, partitioned by an assignment."""

    metadata: GraphMetadata  # metadata of the input
    num_parts: int  # number of partitions
    parts: list[Ids]  # by node type, (nodes,) the partition of each node by original ID
    # by edge type, sources and destinations by original edge ID, type-wise original node IDs
    edges: list[tuple[Ids, Ids]]
    # by edge type ID, original IDs of the edges that are not in the output
    dropped: Mapping[int, Ids] = field(default_factory=dict)
    num_hops: int = 1  # number of hops of the halos
    out_edges: bool = False  # whether each partition also has the edges that leave it
    nodes: Ranges = field(init=False)  # the ranges of the new node IDs
    edge_ranges: Ranges = field(init=False)  # the ranges of the new edge IDs
    orig_nodes: list[Ids] = field(init=False)  # by node type, (nodes,) the original ID by type-wise new ID
    # by edge type, (edges left,) the original ID by type-wise new ID
    orig_edges: list[Ids] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = Ranges(self._counts(self.parts))
        types = range(len(self.edges))
        self.edge_ranges = Ranges(self._counts([self.edge_parts(t)[self.left(t)] for t in types]))
        self.orig_nodes = [in_order(parts) for parts in self.parts]
        self.orig_edges = []
        for t in types:
            order = in_order(self.edge_parts(t))
            self.orig_edges.append(order[self.left(t)[order]] if t in self.dropped else order)

    def only_in_edges(self) -> ExpectedGraph:
        """Return the graph with in-edges of inner nodes and their sources only, whatever the options."""
        found = copy(self)
        found.num_hops, found.out_edges = min(self.num_hops, 1), False
        return found

    def book(self, formats: tuple[str, ...]) -> Book:
        """Return the book that the output should have, without ``part_method``."""
        edge_types = map(str, self.metadata.edge_types)
        return Book(
            graph_name=self.metadata.graph_name,
            num_parts=self.num_parts,
            num_hops=self.num_hops,
            part_method="",
            node_counts=_by_type(self.metadata.node_types, self.nodes),
            edge_counts=_by_type(edge_types, self.edge_ranges),
            formats=formats,
        )

    def edge_parts(self, edge_type_id: int) -> Ids:
        """Return the partition of each edge by original ID, (edges,): that of its destination."""
        dst_type = self.metadata.node_type_id(self.metadata.edge_types[edge_type_id].dst)
        return self.parts[dst_type][self.edges[edge_type_id][1]]

    def left(self, edge_type_id: int) -> Mask:
        """Return whether each edge of the input is in the output, (edges,) bool by original ID."""
        left = np.ones(len(self.edges[edge_type_id][0]), np.bool_)
        if edge_type_id in self.dropped:
            left[self.dropped[edge_type_id]] = False
        return left

    @cached_property
    def new_nodes(self) -> list[Ids]:
        """By node type, (nodes,) int64 homogeneous new IDs by original ID."""
        found: list[Ids] = []
        for type_id, orig in enumerate(self.orig_nodes):
            new = np.empty(len(orig), np.int64)
            new[orig] = self.nodes.new_ids(type_id)
            found.append(new)
        return found

    def new_ends(self, edge_type_id: int, edges: Ids) -> tuple[Ids, Ids]:
        """Return the homogeneous new IDs of sources and destinations of some edges, by original ID."""
        edge_type, ends = self.metadata.edge_types[edge_type_id], self.edges[edge_type_id]
        src_type, dst_type = (self.metadata.node_type_id(name) for name in (edge_type.src, edge_type.dst))
        return self.new_nodes[src_type][ends[0][edges]], self.new_nodes[dst_type][ends[1][edges]]

    def take_node_order(self, type_id: int, orig: Ids) -> None:
        """Take over the order of a node ID map that is a bijection and agrees with the ranges."""
        self.orig_nodes[type_id] = orig
        self.__dict__.pop("new_nodes", None)  # derived from the order before

    def nodes_of(self, part: int, node_type_id: int) -> Ids:
        """Return the original IDs of the nodes of one type in a partition, by new ID."""
        return self.orig_nodes[node_type_id][self.nodes.typed(part, node_type_id)]

    def edges_of(self, part: int, edge_type_id: int) -> Ids:
        """Return the original IDs of the edges of one type in a partition, by new ID."""
        return self.orig_edges[edge_type_id][self.edge_ranges.typed(part, edge_type_id)]

    def describe_nodes(self, new: Ids) -> tuple[Ids, Ids, Ids]:
        """Return partition, node type ID and original type-wise ID of homogeneous new IDs."""
        starts = self.nodes.starts.ravel()
        index = np.searchsorted(starts, new, side="right") - 1
        part, type_id = np.divmod(index, len(self.parts))
        typed = self.nodes.typed_starts.ravel()[index] + new - starts[index]
        orig = np.empty(len(new), np.int64)
        for each in range(len(self.parts)):
            mine = type_id == each
            orig[mine] = self.orig_nodes[each][typed[mine]]
        return part, type_id, orig

    def describe_edges(self, new: Ids) -> tuple[Ids, Ids]:
        """Return edge type ID and original type-wise ID of homogeneous new edge IDs."""
        starts = self.edge_ranges.starts.ravel()
        # the last range that begins there: earlier ones are empty
        index = np.searchsorted(starts, new, side="right") - 1
        type_id = index % len(self.edges)
        typed = self.edge_ranges.typed_starts.ravel()[index] + new - starts[index]
        orig = np.empty(len(new), np.int64)
        for each in range(len(self.edges)):
            mine = type_id == each
            orig[mine] = self.orig_edges[each][typed[mine]]
        return type_id, orig

    def hops(self, part: int) -> Ids:
        """Return the distance of each node to a partition in in-edges, (nodes,) int64 by homogeneous ID.

        Nodes without a path of at most ``num_hops`` in-edges have -1. Peak memory: 40 bytes an edge of the
        largest type, and 8 bytes a node.
        """
        found = np.full(self.nodes.total, -1, np.int64)
        found[slice(*self.nodes.part(part))] = 0
        for hop in range(1, self.num_hops + 1):
            for type_id in range(len(self.edges)):
                edges = self.edges_of(part, type_id) if hop == 1 else self.orig_edges[type_id]
                src, dst = self.new_ends(type_id, edges)
                sources = src[found[dst] == hop - 1]
                found[sources[found[sources] < 0]] = hop
        return found

    def halo(self, part: int) -> Ids:
        """Return the homogeneous new IDs, ascending, of the halo nodes of a partition."""
        found = self.hops(part) > 0
        if self.out_edges:
            for type_id, orig in enumerate(self.orig_edges):
                dst = self.new_ends(type_id, orig)[1]
                found[dst[self._leaves(part, type_id)]] = True
        return np.flatnonzero(found)

    def _leaves(self, part: int, edge_type_id: int) -> Mask:
        """Return whether each edge, by type-wise new ID, starts in a partition that does not own it."""
        edge_type = self.metadata.edge_types[edge_type_id]
        orig = self.orig_edges[edge_type_id]
        src_parts = self.parts[self.metadata.node_type_id(edge_type.src)][self.edges[edge_type_id][0][orig]]
        leaves: Mask = (src_parts == part) & (self.edge_parts(edge_type_id)[orig] != part)
        return leaves

    def own_edges(self, part: int) -> Ids:
        """Return the homogeneous new IDs, ascending, of the own edges in a partition's graph."""
        start, end = self.edge_ranges.part(part)
        if self.num_hops > 0:
            return np.arange(start, end)
        begin, behind = self.nodes.part(part)
        src = [self.new_ends(t, self.edges_of(part, t))[0] for t in range(len(self.edges))]
        ids = np.concatenate(src)
        return start + np.flatnonzero((ids >= begin) & (ids < behind))

    def foreign_edges(self, part: int) -> Ids:
        """Return the homogeneous new IDs, ascending, of the edges in a partition's graph that others own."""
        found = [np.empty(0, np.int64)]
        if self.num_hops > 1:
            hops = self.hops(part)
            for type_id, orig in enumerate(self.orig_edges):
                far = hops[self.new_ends(type_id, orig)[1]]
                found.append(self.edge_ranges.new_ids(type_id)[(far > 0) & (far < self.num_hops)])
        if self.out_edges:
            for type_id in range(len(self.orig_edges)):
                found.append(self.edge_ranges.new_ids(type_id)[self._leaves(part, type_id)])
            return np.unique(np.concatenate(found))
        return np.sort(np.concatenate(found))

    def in_no_graph(self) -> dict[int, Ids]:
        """Return by edge type ID the original IDs of edges that are in no partition's graph."""
        found: dict[int, Ids] = dict(self.dropped)
        if self.num_hops == 0:
            for type_id, edge_type in enumerate(self.metadata.edge_types):
                src_type = self.metadata.node_type_id(edge_type.src)
                src_parts = self.parts[src_type][self.edges[type_id][0]]
                cut = np.flatnonzero(src_parts != self.edge_parts(type_id))
                found[type_id] = np.union1d(found.get(type_id, np.empty(0, np.int64)), cut)
        return found

    def _counts(self, parts: list[Ids]) -> Counts:
        return np.stack([np.bincount(p, minlength=self.num_parts) for p in parts], axis=1).astype(np.int64)


def in_order(parts: Ids) -> Ids:
    """Return the original IDs by partition, ascending inside each.

    Args:
        parts: (n,) partitions by original ID.
    """
    return np.argsort(parts, kind="stable")


def _by_type(names: Iterable[str], ranges: Ranges) -> dict[str, tuple[int, ...]]:
    return {name: tuple(map(int, ranges.counts[:, type_id])) for type_id, name in enumerate(names)}
