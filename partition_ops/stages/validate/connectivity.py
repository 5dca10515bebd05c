"""Degrees and connected components, counted while the edges are read."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError
from partition_ops.system.compilation import compiled
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

    Peak memory: 12 bytes a node; 24 if there are 2**31 nodes or edges or more.

    Args:
        nodes: Number of nodes of all types.
        edges: Number of edges of all types.

    Raises:
        InvalidInputError: The counts do not fit into the memory of the machine.
    """

    def __init__(self, nodes: int, edges: int) -> None:
        dtype = np.dtype(np.int32 if max(nodes, edges) < NARROW else np.int64)
        _check_memory(nodes, 3 * dtype.itemsize)
        self.in_degrees: Counts = np.zeros(nodes, dtype)
        self.out_degrees: Counts = np.zeros(nodes, dtype)
        self._parents: Counts = np.arange(nodes, dtype=dtype)
        # one for each array, so that several threads can be in different steps
        self._locks = threading.Lock(), threading.Lock(), threading.Lock()

    def add(self, src: Ids, dst: Ids, src_offset: int, dst_offset: int) -> None:
        """Add edges.

        Args:
            src: (n,) int64, type-wise IDs.
            dst: (n,) int64, type-wise IDs.
            src_offset: First homogeneous ID of the sources' type.
            dst_offset: First homogeneous ID of the destinations' type.
        """
        with self._locks[0]:
            _count(src, src_offset, self.out_degrees)
        with self._locks[1]:
            _count(dst, dst_offset, self.in_degrees)
        with self._locks[2]:
            _join(src, dst, src_offset, dst_offset, self._parents)

    def components(self) -> Components:
        """Return the weakly connected components of the edges so far."""
        sizes = _component_sizes(self._parents)
        return Components(int((sizes > 0).sum()), int(sizes.max(initial=0)))


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
def _count(ids: Ids, offset: int, degrees: Counts) -> None:
    for i in range(len(ids)):
        degrees[ids[i] + offset] += 1


@compiled
def _join(src: Ids, dst: Ids, src_offset: int, dst_offset: int, parents: Counts) -> None:
    """Join the components of edges: union-find without ranks, the smaller ID becomes the root."""
    for i in range(len(src)):
        u, v = src[i] + src_offset, dst[i] + dst_offset
        if parents[u] == parents[v]:  # after a while nearly always
            continue
        a, b = _root(parents, u), _root(parents, v)
        root = min(a, b)
        parents[max(a, b)] = root
        parents[u] = root
        parents[v] = root


@compiled
def _component_sizes(parents: Counts) -> Ids:
    sizes = np.zeros(len(parents), np.int64)
    for node in range(len(parents)):
        sizes[_root(parents, node)] += 1
    return sizes
