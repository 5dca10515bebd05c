"""Degrees and connected components, counted while the edges are read."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError
from partition_ops.system.compilation import compiled, compiled_with_arrays, unsigned
from partition_ops.system.memory import memory_limit

Ids = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32] | npt.NDArray[np.int64]
NARROW = 2**31  # below this 32 bits suffice: half the memory, and twice as many numbers in the cache


@dataclass(frozen=True)
class Components:
    """Weakly connected components of the whole graph.

    Attributes:
        count: How many there are; an isolated node is a component.
        largest: Number of nodes of the largest.
    """

    count: int
    largest: int


class Connectivity:
    """Counts over all nodes; usable from several threads.

    Peak memory: 14 bytes a node; 26 if there are 2**31 nodes or edges or more.

    Args:
        nodes: Number of nodes of all types.
        edges: Number of edges of all types.

    Raises:
        InvalidInputError: The counts do not fit into the memory of the machine.
    """

    def __init__(self, nodes: int, edges: int) -> None:
        dtype = np.dtype(np.int32 if max(nodes, edges) < NARROW else np.int64)
        _check_memory(nodes, 3 * dtype.itemsize + 2)
        self._in_degrees = _Degrees(nodes, dtype)
        self._out_degrees = _Degrees(nodes, dtype)
        self._parents: Counts = np.arange(nodes, dtype=dtype)
        self._lock = threading.Lock()

    def add(self, src: Ids, dst: Ids, src_offset: int, dst_offset: int) -> None:
        """Add edges.

        Args:
            src: (n,) int64, type-wise IDs.
            dst: (n,) int64, type-wise IDs.
            src_offset: First homogeneous ID of the sources' type.
            dst_offset: First homogeneous ID of the destinations' type.
        """
        # each has a lock of its own, so that several threads can be in different steps
        self._out_degrees.add(src, src_offset)
        self._in_degrees.add(dst, dst_offset)
        with self._lock:
            _join(src, dst, src_offset, dst_offset, self._parents)

    @property
    def in_degrees(self) -> Counts:
        """(nodes,) int32 or int64, edges that end at each node."""
        return self._in_degrees.counts()

    @property
    def out_degrees(self) -> Counts:
        """(nodes,) int32 or int64, edges that begin at each node."""
        return self._out_degrees.counts()

    def components(self) -> Components:
        """Return the weakly connected components of the edges so far."""
        sizes = _component_sizes(self._parents)
        return Components(int((sizes > 0).sum()), int(sizes.max(initial=0)))


class _Degrees:
    """Degrees of nodes; the lower 8 bits are counted in an array of their own, which fits in the cache."""

    def __init__(self, nodes: int, dtype: np.dtype[Any]) -> None:
        self._low = np.zeros(nodes, np.uint8)
        self._counts: Counts = np.zeros(nodes, dtype)
        self._added = True  # the lower bits to the counts
        self._lock = threading.Lock()

    def add(self, ids: Ids, offset: int) -> None:
        with self._lock:
            _count(ids, offset, self._low, self._counts)
            self._added = False

    def counts(self) -> Counts:
        with self._lock:
            if not self._added:
                self._counts += self._low
                self._low[:] = 0
                self._added = True
        return self._counts


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
def _count(ids: Ids, offset: int, low: npt.NDArray[np.uint8], counts: Counts) -> None:
    """Count nodes: up to 255 of each in ``low``, and 256 more in ``counts`` when that begins again at 0."""
    for i in range(len(ids)):
        node = unsigned(ids[i] + offset)
        low[node] += np.uint8(1)
        if low[node] == 0:
            counts[node] += 256


@compiled
def _join(src: Ids, dst: Ids, src_offset: int, dst_offset: int, parents: Counts) -> None:
    """Join the components of edges: union-find without ranks, the smaller ID becomes the root."""
    for i in range(len(src)):
        u, v = src[i] + src_offset, dst[i] + dst_offset
        if parents[unsigned(u)] == parents[unsigned(v)]:  # after a while nearly always
            continue
        a, b = _root(parents, u), _root(parents, v)
        root = min(a, b)
        parents[max(a, b)] = root
        parents[u] = root
        parents[v] = root


@compiled_with_arrays
def _component_sizes(parents: Counts) -> Ids:
    sizes = np.zeros(len(parents), np.int64)
    for node in range(len(parents)):
        sizes[_root(parents, node)] += 1
    return sizes
