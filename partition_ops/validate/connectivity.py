"""Degrees and connected components, counted while the edges stream by."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Ids = npt.NDArray[np.int64]
Degrees = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Components:
    """Weakly connected components of the whole graph.

    Attributes:
        count: How many; an isolated node is one of its own.
        largest: Nodes of the largest.
    """

    count: int
    largest: int


class Connectivity:
    """Counts over all nodes; usable from several threads.

    Peak memory: 24 bytes a node.

    Args:
        nodes: Number of nodes of all types.
    """

    def __init__(self, nodes: int) -> None:
        self.in_degrees: Degrees = np.zeros(nodes, np.int64)
        self.out_degrees: Degrees = np.zeros(nodes, np.int64)
        self._parents: Ids = np.arange(nodes)
        self._lock = threading.Lock()

    def add(self, src: Ids, dst: Ids, src_offset: int, dst_offset: int) -> None:
        """Add edges.

        Args:
            src: (n,) int64, type-wise IDs.
            dst: (n,) int64, type-wise IDs.
            src_offset: First homogeneous ID of the sources' type.
            dst_offset: First homogeneous ID of the destinations' type.
        """
        with self._lock:
            _add(src, dst, src_offset, dst_offset, self.out_degrees, self.in_degrees, self._parents)

    def components(self) -> Components:
        sizes = _component_sizes(self._parents)
        return Components(int((sizes > 0).sum()), int(sizes.max(initial=0)))


@njit(cache=True, nogil=True)
def _root(parents: Ids, node: int) -> int:
    while parents[node] != node:
        parents[node] = parents[parents[node]]  # halve the path on the way
        node = parents[node]
    return node


@njit(cache=True, nogil=True)
def _add(
    src: Ids,
    dst: Ids,
    src_offset: int,
    dst_offset: int,
    out_degrees: Degrees,
    in_degrees: Degrees,
    parents: Ids,
) -> None:
    for i in range(len(src)):
        a, b = src[i] + src_offset, dst[i] + dst_offset
        out_degrees[a] += 1
        in_degrees[b] += 1
        a, b = _root(parents, a), _root(parents, b)
        if a < b:
            parents[b] = a
        else:
            parents[a] = b


@njit(cache=True, nogil=True)
def _component_sizes(parents: Ids) -> Ids:
    sizes = np.zeros(len(parents), np.int64)
    for node in range(len(parents)):
        sizes[_root(parents, node)] += 1
    return sizes
