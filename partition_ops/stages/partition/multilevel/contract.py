"""Contraction: the graph whose nodes are the clusters of another one."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from partition_ops.stages.partition.multilevel.batches import Batches
from partition_ops.stages.partition.multilevel.graph import Graph, Integers, Labels

ENTRIES_AT_ONCE = 1 << 22


class _Piece(NamedTuple):
    """Some consecutive clusters, and what is found of them.

    Attributes:
        begin: The first cluster.
        found: Neighbours of all these clusters, with gaps between the clusters.
        weights: Weights of the edges to them.
        sizes: (clusters of the graph,) number of neighbours of each.
    """

    begin: int
    found: Labels
    weights: Integers
    sizes: Integers


def contract(graph: Graph, labels: Labels) -> tuple[Graph, Labels]:
    """Return the graph whose nodes are the clusters.

    Args:
        graph: Weighted or not.
        labels: (nodes,) int32, the cluster of each node, below the number of nodes.

    Returns:
        The contracted graph, in which an edge weighs as much as all edges between the two clusters, and the
        node of the contracted graph for each node, (nodes,) int32 from 0 without gaps.

    Peak memory: 16 bytes a node, twice 16 bytes an edge of the contracted graph, 50 MiB, and 12 bytes a
    cluster for each thread.
    """
    dense, count = _dense(labels)
    starts, members = _members(dense, count)
    bounds = _bounds(graph.offsets, dense, count)
    sizes = np.zeros(count, np.int64)
    pieces: list[tuple[Integers, Integers]] = []
    ends = _ends(bounds, count)
    room = max((int(bounds[end] - bounds[begin]) for begin, end in pairwise(ends)), default=0)
    found, weights = np.empty(room, np.int32), np.empty(room, np.int64)
    with Batches(count) as batches:
        sums = np.zeros((batches.threads, count), np.int64)
        for begin, end in pairwise(ends):
            piece = _Piece(begin, found, weights, sizes)

            def rows(thread: int, span: slice, piece: _Piece = piece) -> None:
                first, last = _between(bounds, piece.begin, span)
                _rows(graph, dense, starts, members, bounds, piece, first, last, sums[thread])

            batches.share(0, int(bounds[end] - bounds[begin]), rows)
            pieces.append(_pack(bounds, piece, end))
    neighbours, edge_weights = (
        np.concatenate([np.zeros(0, np.int64), *(piece[i] for piece in pieces)]) for i in (0, 1)
    )
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    node_weights = np.diff(starts)
    if len(graph.node_weights):
        node_weights = np.bincount(dense, weights=graph.node_weights, minlength=count).astype(np.int64)
    return Graph(offsets, neighbours, edge_weights, node_weights), dense


def _ends(bounds: Integers, count: int) -> list[int]:
    """Return 0, and the end of each piece of the clusters."""
    ends = [0]
    while ends[-1] < count:
        end = int(np.searchsorted(bounds, bounds[ends[-1]] + ENTRIES_AT_ONCE, side="right")) - 1
        ends.append(min(max(end, ends[-1] + 1), count))
    return ends


def _dense(labels: Labels) -> tuple[Labels, int]:
    used = np.zeros(len(labels), np.int32)
    used[labels] = 1
    numbers = np.cumsum(used, dtype=np.int32) - 1
    return numbers[labels], int(numbers[-1]) + 1


@njit(cache=True, nogil=True)
def _members(labels: Labels, count: int) -> tuple[Integers, Integers]:
    """Return where the nodes of each cluster begin, and the nodes, cluster by cluster: a counting sort."""
    starts = np.zeros(count + 1, np.int64)
    for v in range(len(labels)):
        starts[labels[v] + 1] += 1
    for label in range(count):
        starts[label + 1] += starts[label]
    places = starts[:-1].copy()
    members = np.empty(len(labels), np.int64)
    for v in range(len(labels)):
        members[places[labels[v]]] = v
        places[labels[v]] += 1
    return starts, members


@njit(cache=True, nogil=True)
def _bounds(offsets: Integers, labels: Labels, count: int) -> Integers:
    """Return (clusters + 1,) int64, cumulative sums of the most neighbours that each cluster can have."""
    bounds = np.zeros(count + 1, np.int64)
    for v in range(len(labels)):
        bounds[labels[v] + 1] += offsets[v + 1] - offsets[v]
    for label in range(count):
        bounds[label + 1] = bounds[label] + min(bounds[label + 1], count - 1)
    return bounds


def _between(bounds: Integers, begin: int, span: slice) -> tuple[int, int]:
    """Return the clusters whose first position is in a span of the positions from ``begin`` on."""
    places = bounds[begin] + np.array([span.start, span.stop])
    first, last = np.searchsorted(bounds, places)
    return int(first), int(last)


@njit(cache=True, nogil=True)
def _rows(
    graph: Graph,
    labels: Labels,
    starts: Integers,
    members: Integers,
    bounds: Integers,
    piece: _Piece,
    first: int,
    last: int,
    sums: Integers,
) -> None:
    """Find the neighbours of the clusters from ``first`` to ``last``, each at its position in ``bounds``."""
    for label in range(first, last):
        at = bounds[label] - bounds[piece.begin]
        count = 0
        for i in range(starts[label], starts[label + 1]):
            v = members[i]
            for j in range(graph.offsets[v], graph.offsets[v + 1]):
                other = labels[graph.neighbours[j]]
                if other != label:
                    if sums[other] == 0:
                        piece.found[at + count] = other
                        count += 1
                    sums[other] += graph.edge_weights[j] if len(graph.edge_weights) else 1
        for i in range(at, at + count):
            piece.weights[i] = sums[piece.found[i]]
            sums[piece.found[i]] = 0
        piece.sizes[label] = count


@njit(cache=True, nogil=True)
def _pack(bounds: Integers, piece: _Piece, last: int) -> tuple[Integers, Integers]:
    """Return neighbours and weights without the gaps between the clusters."""
    total = piece.sizes[piece.begin : last].sum()
    neighbours = np.empty(total, np.int64)
    packed = np.empty(total, np.int64)
    at = 0
    for label in range(piece.begin, last):
        begin = bounds[label] - bounds[piece.begin]
        for i in range(begin, begin + piece.sizes[label]):
            neighbours[at] = piece.found[i]
            packed[at] = piece.weights[i]
            at += 1
    return neighbours, packed
