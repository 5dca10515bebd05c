"""The partitions that a local search changes, and the edges from each node to each partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.batches import add_up_nodes
from partition_ops.stages.partition.multilevel.graph import Integers, Labels
from partition_ops.stages.partition.multilevel.refine import State, add
from partition_ops.system.compilation import compiled, compiled_inline, unsigned

NOT_QUEUED = -1
SCALE = 8  # with homes, an edge counts so much, for prices between 0 and 1
MOST_PULL = 1 << 28  # of one node, so that sums fit 32 bits
Sums = npt.NDArray[np.int32]


class Homes(NamedTuple):
    """The partitions that nodes should rather stay in, and what leaving them costs.

    Attributes:
        nodes: (nodes, parts) int32, how many nodes of the input graph in each node were in each partition.
        price: Edges that leaving its partition must save, for each node of the input graph.
    """

    nodes: Sums
    price: float

    def contracted(self, labels: Labels, count: int) -> Homes:
        """Return the homes of clusters.

        Args:
            labels: (nodes,) int32, the cluster of each node.
            count: Number of clusters.
        """
        nodes = np.zeros((count, self.nodes.shape[1]), np.int32)
        for part in range(nodes.shape[1]):
            nodes[:, part] = np.bincount(labels, weights=self.nodes[:, part], minlength=count)
        return self._replace(nodes=nodes)


class Search(NamedTuple):
    """Scratch arrays of the searches in one graph.

    Attributes:
        sums: (nodes, parts) int32, weight of the edges from each node to each partition, times `scale`, and
            the prices of its homes.
        scale: Factor of the weights of edges.
        heap: (nodes,) int32, queued nodes, the one with the largest gain first.
        places: (nodes,) int32, position of each node in the heap, or `NOT_QUEUED`.
        gains: (nodes,) int64, gain of each queued node.
        locked: (nodes,) bool, nodes that the current pass has moved, or at which a search ended.
        moved: (nodes,) int32, nodes that the current search has moved.
        origins: (nodes,) int32, the partitions that they left.
    """

    sums: Sums
    scale: int
    heap: Labels
    places: Labels
    gains: Integers
    locked: npt.NDArray[np.bool_]
    moved: Labels
    origins: Labels


def pull_home(sums: Sums, homes: Homes) -> None:
    """Add the price of leaving its home to the sums of each node, like an edge that stays there."""
    sums += np.round(np.minimum(homes.nodes * (homes.price * SCALE), MOST_PULL)).astype(np.int32)


def scratch(nodes: int, count: int, scale: int) -> Search:
    return Search(
        np.zeros((nodes, count), np.int32),
        scale,
        np.empty(nodes, np.int32),
        np.full(nodes, NOT_QUEUED, np.int32),
        np.empty(nodes, np.int64),
        np.zeros(nodes, np.bool_),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )


def sum_up(state: State, search: Search) -> int:
    """Fill the sums; return the weight of the edges that are cut."""
    return add_up_nodes(state.graph.offsets, lambda begin, end: _sum_up(state, search, begin, end)) // 2


@compiled
def _sum_up(state: State, search: Search, begin: int, end: int) -> int:
    """Fill the sums of some nodes; return the weight of their half-edges that are cut."""
    graph, cut = state.graph, 0
    for v in range(begin, end):
        row, degree = search.sums[v], 0
        for j in range(graph.offsets[v], graph.offsets[v + 1]):
            weight = search.scale * (graph.edge_weights[j] if len(graph.edge_weights) else 1)
            row[unsigned(state.parts[unsigned(graph.neighbours[j])])] += weight
            degree += weight
        cut += degree - row[state.parts[v]]
    return cut


@compiled_inline
def shift(state: State, search: Search, v: int, part: int) -> None:
    """Move a node, and update the sums of its neighbours."""
    graph, own = state.graph, state.parts[v]
    add(state, v, own, -1)
    add(state, v, part, 1)
    state.parts[v] = part
    for j in range(graph.offsets[v], graph.offsets[v + 1]):
        weight = search.scale * (graph.edge_weights[j] if len(graph.edge_weights) else 1)
        u = graph.neighbours[j]
        search.sums[u, own] -= weight
        search.sums[u, part] += weight
