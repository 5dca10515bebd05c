"""`add_to_half_edges`, which gives the weights of edges to the half-edges of a symmetric graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, unsigned
from partition_ops.traffic.sampled_edges import SampledEdges

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


def add_to_half_edges(edges: SampledEdges, weights: Ids, offsets: Counts, neighbours: Ids) -> Ids:
    """Return (half-edges,) float64: the weights of all edges between the two nodes of each half-edge.

    Args:
        edges: The edges, with the homogeneous IDs of the graph.
        weights: (edges,) weights in the order of ``edges.groups``.
        offsets: (nodes + 1,) int64, where the neighbours of each node begin in a symmetric graph.
        neighbours: (half-edges,) the neighbours, ascending for each node, as ``prepare`` writes them. Edges
            between nodes that are not neighbours, such as self-loops, are left out.

    Peak memory: the result, and 8 bytes a node.
    """
    result = np.zeros(len(neighbours), np.float64)
    cursors = offsets[:-1].copy()
    _add(edges.first, edges.groups, edges.group_nodes, weights, offsets, neighbours, cursors, result)
    return result


@compiled
def _add(
    first: Counts,
    groups: Ids,
    group_nodes: Ids,
    weights: Ids,
    offsets: Counts,
    neighbours: Ids,
    cursors: Counts,
    result: Ids,
) -> None:
    """See `add_to_half_edges`; ``cursors`` moves through each row, since the sources ascend."""
    for u in range(len(first) - 1):
        for e in range(first[u], first[u + 1]):
            v = np.int64(group_nodes[unsigned(groups[e])])
            low, high = offsets[u], offsets[u + 1]
            while low < high:
                middle = (low + high) // 2
                if neighbours[middle] < v:
                    low = middle + 1
                else:
                    high = middle
            if low == offsets[u + 1] or neighbours[low] != v:
                continue
            result[low] += weights[e]
            other = cursors[v]
            while neighbours[other] < u:
                other += 1
            cursors[v] = other
            result[other] += weights[e]
