"""Degrees and connected components, counted while the edges are read; several counts can be merged.

`DegreeFigures` are figures of the degrees of each node type, which can be added up over ranges of nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.system.compilation import compiled, compiled_with_arrays, prefetch_ahead, unsigned
from partition_ops.system.memory import memory_limit

Ids = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32] | npt.NDArray[np.int64]
NODES_AT_ONCE = 1 << 20
DEGREE_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MERGED_NODES = 1 << 20  # of another forest, at a time
NARROW = 2**31  # below this 32 bits suffice: half the memory, and twice as many numbers in the cache


@dataclass(frozen=True)
class Components:
    """Weakly connected components of the whole graph."""

    count: int  # how many there are; an isolated node is a component
    largest: int  # number of nodes of the largest


class Forest:
    """The connected components of the edges so far, as a forest: each node has a parent, or is a root.

    Peak memory: 8 bytes a node; 16 if there are 2**31 nodes or edges or more.

    Args:
        nodes: Number of nodes of all types.
        edges: Number of edges of all types.

    Attributes:
        parents: (nodes,) int32 or int64.
    """

    def __init__(self, nodes: int, edges: int) -> None:
        self.parents: Counts = np.arange(nodes, dtype=count_dtype(nodes, edges))
        self._lock = threading.Lock()

    def add(self, src: Ids, dst: Ids, src_offset: int, dst_offset: int) -> None:
        """Add edges; the arguments are those of `Connectivity.add`."""
        with self._lock:
            _join(src, dst, src_offset, dst_offset, self.parents)

    def flatten(self) -> Counts:
        """Return (nodes,) the parents: the smallest ID of each component, whatever the order of edges."""
        _flatten(self.parents)
        return self.parents

    def merge(self, parents: Counts) -> None:
        """Add the edges of another forest of the same nodes, given its (nodes,) parents."""
        for begin in range(0, len(parents), MERGED_NODES):
            block = np.asarray(parents[begin : begin + MERGED_NODES]).astype(np.int64)
            self.add(np.arange(begin, begin + len(block)), block, 0, 0)

    def components(self) -> Components:
        """Return the weakly connected components of the edges so far."""
        sizes = _component_sizes(self.parents)
        return Components(int((sizes > 0).sum()), int(sizes.max(initial=0)))


class Connectivity:
    """Counts over all nodes; usable from several threads.

    Peak memory: 6 bytes a node, 10 if there are 2**31 nodes or edges or more; an eighth of a byte an edge.

    Args:
        nodes: Number of nodes of all types.
        edges: Number of edges of all types.

    Attributes:
        forest: The connected components.
        in_degrees: Edges that end at each node.
        out_degrees: Edges that begin at each node.

    Raises:
        InvalidInputError: The counts do not fit into the memory of the machine.
    """

    def __init__(self, nodes: int, edges: int) -> None:
        _check_memory(nodes, count_dtype(nodes, edges).itemsize + 2)
        self.in_degrees = CompactDegrees(nodes)
        self.out_degrees = CompactDegrees(nodes)
        self.forest = Forest(nodes, edges)

    def add(self, src: Ids, dst: Ids, src_offset: int, dst_offset: int) -> None:
        """Add edges.

        Args:
            src: (n,) int64, type-wise IDs.
            dst: (n,) int64, type-wise IDs.
            src_offset: First homogeneous ID of the sources' type.
            dst_offset: First homogeneous ID of the destinations' type.
        """
        # each has a lock of its own, so that several threads can be in different steps
        self.out_degrees.add(src, src_offset)
        self.in_degrees.add(dst, dst_offset)
        self.forest.add(src, dst, src_offset, dst_offset)


class CompactDegrees:
    """Degrees of nodes: the lower 8 bits of each, and a list in which a node is once for each 256.

    Peak memory: a byte a node, and a sixteenth of a byte for each edge.
    """

    def __init__(self, nodes: int) -> None:
        self._low = np.zeros(nodes, np.uint8)
        self._carries: list[Ids] = []
        self._ascending = True
        self._lock = threading.Lock()

    def add(self, ids: Ids, offset: int) -> None:
        """Count (n,) int64 type-wise IDs, whose type begins at a homogeneous ID."""
        carried = np.empty(len(ids), np.int64)
        with self._lock:
            count = _count(ids, offset, self._low, carried)
            if count:
                self._carries.append(carried[:count].copy())
                self._ascending = False

    def of(self, nodes: slice) -> tuple[npt.NDArray[np.uint8], Ids]:
        """Return the lower bits of a range of nodes, and each node, from 0, as often as it has 256 more.

        Its degrees are `full_degrees` of both. The order depends on the edges alone.
        """
        with self._lock:
            carries = np.concatenate([np.empty(0, np.int64), *self._carries])
            if not self._ascending:
                carries.sort()
                self._carries, self._ascending = [carries], True
        begin, end = np.searchsorted(carries, (nodes.start, nodes.stop))
        return self._low[nodes], carries[begin:end] - nodes.start


def full_degrees(low: npt.NDArray[np.uint8], carries: Ids) -> Ids:
    """Return (nodes,) int64, the degrees of which `CompactDegrees.of` returns the two parts.

    Peak memory: 8 bytes a node.
    """
    degrees = low.astype(np.int64)
    nodes, counts = np.unique(carries, return_counts=True)
    degrees[nodes] += 256 * counts
    return degrees


def _no_nodes() -> list[int]:
    return [0] * len(DEGREE_BINS)


@dataclass(frozen=True)
class DegreeFigures:
    """Figures of the degrees of some nodes of one type."""

    isolated: int = 0  # number of nodes without any edge
    max_in: int = 0  # largest in-degree
    max_out: int = 0  # largest out-degree
    total: int = 0  # sum of all in- and out-degrees
    # number of nodes with an in-degree from each of `DEGREE_BINS` up to the next
    in_bins: list[int] = field(default_factory=_no_nodes)
    out_bins: list[int] = field(default_factory=_no_nodes)  # the same for out-degrees

    def __add__(self, other: DegreeFigures) -> DegreeFigures:
        """Return the figures of the nodes of both."""
        return DegreeFigures(
            self.isolated + other.isolated,
            max(self.max_in, other.max_in),
            max(self.max_out, other.max_out),
            self.total + other.total,
            [a + b for a, b in zip(self.in_bins, other.in_bins, strict=True)],
            [a + b for a, b in zip(self.out_bins, other.out_bins, strict=True)],
        )


def degree_figures(
    metadata: GraphMetadata,
    in_degrees: npt.NDArray[np.integer[Any]],
    out_degrees: npt.NDArray[np.integer[Any]],
    first: int = 0,
) -> list[DegreeFigures]:
    """Return the figures of a range of nodes, by node type ID.

    Args:
        metadata: The graph's metadata.
        in_degrees: (n,) integers, in-degrees by homogeneous ID.
        out_degrees: (n,) the same for out-degrees.
        first: Homogeneous ID of the first node.
    """
    found = []
    for type_id in range(len(metadata.node_types)):
        begin, end = (max(at - first, 0) for at in metadata.node_offsets[type_id : type_id + 2])
        ins, outs = in_degrees[begin:end], out_degrees[begin:end]
        found.append(
            DegreeFigures(
                int(((ins == 0) & (outs == 0)).sum()),
                int(ins.max(initial=0)),
                int(outs.max(initial=0)),
                int(ins.sum() + outs.sum()),
                _binned(ins),
                _binned(outs),
            )
        )
    return found


def degrees_of(metadata: GraphMetadata, connectivity: Connectivity) -> list[DegreeFigures]:
    """Return the figures of all nodes by node type ID. Peak memory: 50 MiB."""
    nodes = sum(metadata.num_nodes)
    spans = [slice(at, min(at + NODES_AT_ONCE, nodes)) for at in range(0, max(nodes, 1), NODES_AT_ONCE)]
    ins, outs = connectivity.in_degrees, connectivity.out_degrees
    return sum_of_figures(
        degree_figures(metadata, full_degrees(*ins.of(span)), full_degrees(*outs.of(span)), span.start)
        for span in spans
    )


def sum_of_figures(found: Iterable[Sequence[DegreeFigures]]) -> list[DegreeFigures]:
    """Return the figures of all nodes by node type ID, from those of several ranges."""
    return [sum(of_type, DegreeFigures()) for of_type in zip(*found, strict=True)]


def _binned(degrees: npt.NDArray[np.integer[Any]]) -> list[int]:
    counts = np.bincount(np.minimum(degrees, DEGREE_BINS[-1]), minlength=DEGREE_BINS[-1] + 1)
    return [int(count) for count in np.add.reduceat(counts, DEGREE_BINS)]


def count_dtype(nodes: int, edges: int) -> np.dtype[Any]:
    """Return the dtype of counts and node IDs of a graph with so many nodes and edges."""
    return np.dtype(np.int32 if max(nodes, edges) < NARROW else np.int64)


def _check_memory(nodes: int, bytes_a_node: int) -> None:
    """Raise InvalidInputError if the counts would not fit into memory, before it is allocated."""
    limit = memory_limit()
    if nodes * bytes_a_node > limit:
        raise InvalidInputError(
            "The graph has more nodes than fit into the memory of this machine",
            found=f"{nodes:,} nodes; checking takes {bytes_a_node} bytes for each",
            expected=f"at most {limit // bytes_a_node:,} with {limit / 2**30:.1f} GiB",
            remedy="Correct the counts in metadata.json, or use a machine with more memory.",
        )


@compiled
def _root(parents: Counts, node: int) -> int:
    while parents[node] != node:
        parents[node] = parents[parents[node]]  # halve the path on the way
        node = parents[node]
    return node


@compiled
def _count(ids: Ids, offset: int, low: npt.NDArray[np.uint8], carried: Ids) -> int:
    """Count nodes up to 255 in ``low``; write each to ``carried`` whenever that begins again at 0."""
    count = 0
    for i in range(len(ids)):
        node = unsigned(ids[i] + offset)
        low[node] += np.uint8(1)
        if low[node] == 0:
            carried[unsigned(count)] = np.int64(node)
            count += 1
    return count


@compiled
def _join(src: Ids, dst: Ids, src_offset: int, dst_offset: int, parents: Counts) -> None:
    """Join the components of edges: union-find without ranks, the smaller ID becomes the root."""
    of_sources, of_destinations = parents[src_offset:], parents[dst_offset:]
    for i in range(len(src)):
        prefetch_ahead(of_sources, src, i)
        prefetch_ahead(of_destinations, dst, i)
        u, v = src[i] + src_offset, dst[i] + dst_offset
        if parents[unsigned(u)] == parents[unsigned(v)]:  # after a while nearly always
            continue
        a, b = _root(parents, u), _root(parents, v)
        root = min(a, b)
        parents[max(a, b)] = root
        parents[u] = root
        parents[v] = root


@compiled
def _flatten(parents: Counts) -> None:
    for node in range(len(parents)):
        parents[node] = _root(parents, node)


@compiled_with_arrays
def _component_sizes(parents: Counts) -> Counts:
    sizes = np.zeros_like(parents)
    for node in range(len(parents)):
        sizes[_root(parents, node)] += 1
    return sizes
