"""Clusters of nodes by size-constrained label propagation, and the graph whose nodes are the clusters.

Source: Meyerhenke, Sanders, Schulz, "Partitioning complex networks via size-constrained clustering" (2014).
Our own addition is the order: nodes are processed a batch at a time. Every proposal of a batch is made from
the labels before the batch, and then all are entered in one order; so any number of threads gives the same
labels.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partition_ops.stages.partition.multilevel.batches import Batches
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    Graph,
    Integers,
    Labels,
    largest_degree,
    look_around,
    most_looked_up,
    prefetch_around,
)
from partition_ops.stages.partition.multilevel.spread import WHOLE, Powers, Whole
from partition_ops.stages.partition.multilevel.tuning import ATTEMPTS, DEFAULT, LOOKED_UP, Contraction
from partition_ops.system.compilation import compiled, compiled_inline, compiled_with_arrays, unsigned

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Fibonacci hashing, Knuth vol. 3, 6.4
STAFFORD = np.uint64(0xBF58476D1CE4E5B9)  # of the finalizer of splitmix64
LARGEST = np.uint64(2**64 - 1)  # of the numbers that `_mix` returns
FREE = 0  # what untouched memory holds: a slot has its label and one
ENTRIES_AT_ONCE = 1 << 22


def find_clusters(
    graph: Graph,
    most: int,
    seed: int,
    cells: Labels = NO_LABELS,
    how: Contraction = DEFAULT.over_clusters,
    spread: Whole = WHOLE,
) -> Labels:
    """Return (nodes,) int32, the cluster of each node, of values below the number of nodes.

    Args:
        graph: Weighted or not.
        most: Weight that a cluster may reach, in nodes of the input graph.
        seed: Decides between labels that are equally good.
        cells: (nodes,) int32; only nodes of the same cell share a cluster. Empty for no such limit.
        how: How often every node may move to another cluster.
        spread: Where the neighbours are.

    Peak memory: 12 bytes a node, and 200 bytes times the largest degree for each thread.
    """
    nodes = graph.num_nodes
    labels = np.arange(nodes, dtype=np.int32)
    sizes = graph.node_weights.astype(np.int32) if len(graph.node_weights) else np.ones(nodes, np.int32)
    order = _by_power(spread.of_all(_powers(graph.offsets)))
    with Batches(nodes) as batches:
        proposed = np.empty(batches.size, np.int32)
        tables = _tables(graph, batches.threads)
        around = np.empty((batches.threads, most_looked_up(graph)), np.int32)
        for sweep in range(how.sweeps):
            salt = (seed * how.sweeps + sweep + 1) * nodes

            def propose(thread: int, span: slice, salt: int = salt) -> None:
                some, room = order[span], (tables[thread], around[thread])
                theirs = proposed[span.start % batches.size :][: len(some)]
                _propose(graph, some, labels, cells, sizes, most, salt, room, theirs)

            moved = 0
            for span in batches.of(propose):
                some = order[span]
                spread.agree(proposed[: len(some)], labels[some])
                moved += _enter(some, proposed[: len(some)], graph.node_weights, most, labels, sizes)
            if moved <= how.settled * nodes:
                break
    return labels


@compiled_with_arrays
def _powers(offsets: Integers) -> Powers:
    """Return (nodes,) uint8, the power of two in the degree of each node; 0 also for the degree 0."""
    powers = np.empty(len(offsets) - 1, np.uint8)
    for v in range(len(powers)):
        powers[v] = max(math.frexp(offsets[v + 1] - offsets[v])[1] - 1, 0)
    return powers


@compiled_with_arrays
def _by_power(powers: Powers) -> Labels:
    """Return the nodes by the power of two in their degree, low ones first: they have the least choice."""
    places = np.zeros(66, np.int64)
    for power in powers:
        places[power + 1] += 1
    for i in range(1, len(places)):
        places[i] += places[i - 1]
    order = np.empty(len(powers), np.int32)
    for v in range(len(order)):
        order[places[powers[v]]] = v
        places[powers[v]] += 1
    return order


def _tables(graph: Graph, threads: int) -> Integers:
    """Allocate a hash table for the largest degree for each thread: (threads, 3, slots)."""
    most = max(largest_degree(graph.offsets), 1)
    return np.zeros((threads, 3, 1 << (4 * most).bit_length()), np.int64)


@compiled_inline
def _mix(label: Any, salt: Any) -> Any:
    """Return a pseudo-random number, to choose among labels that are equally good."""
    x = (np.uint64(label) * GOLDEN) ^ (np.uint64(salt) * STAFFORD)
    x ^= x >> np.uint64(29)
    x *= STAFFORD
    return x ^ (x >> np.uint64(32))


@compiled_inline
def _slot(keys: Integers, key: Any, shift: Any, last: Any) -> Any:
    """Return the slot of a label and one in the hash table, used or not."""
    slot = (np.uint64(key) * GOLDEN) >> shift
    while keys[slot] != FREE and keys[slot] != key:
        slot = (slot + np.uint64(1)) & last
    return slot


@compiled_inline
def _count_labels(
    graph: Graph, v: int, own: int | np.int32, around: Labels, table: Integers
) -> tuple[Any, int]:
    """Sum the weights of the edges to each label around a node in the table: labels, weights, used slots.

    Returns:
        The number of used slots, and the weight of the edges to the node's own label.
    """
    keys, sums, used = table[0], table[1], table[2]
    bits = 2
    while (1 << bits) < 4 * len(around):
        bits += 1
    shift, last = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
    weights = graph.edge_weights[graph.offsets[v] : graph.offsets[v + 1]]
    count = np.uint64(0)
    for i in range(len(around)):  # without branches that the processor cannot predict
        key = np.int64(around[i]) + 1
        slot = _slot(keys, key, shift, last)
        used[count] = slot
        count += np.uint64(keys[slot] == FREE)
        keys[slot] = key
        sums[slot] += weights[i] if len(weights) else 1
    return count, sums[_slot(keys, np.int64(own) + 1, shift, last)]


@compiled_inline
def _best_label(
    own: Any, own_sum: Any, count: Any, table: Integers, cells: Labels, sizes: Labels, most: Any, salt: Any
) -> Any:
    """Return the heaviest label in the table whose cluster has room, if it is heavier than a node's own.

    The size of a cluster is rarely in the cache, so only that of the heaviest label is looked up. If its
    cluster is full, the next one follows, and after `ATTEMPTS` the sizes of all labels: a hub has many full
    clusters around it. A cluster of up to ``most`` has room; ``salt`` decides between equally heavy labels.
    """
    keys, sums, used = table[0], table[1], table[2]
    best = np.int64(own)
    for attempt in range(ATTEMPTS + 1):
        best, best_sum, best_mix, best_slot = np.int64(own), own_sum, LARGEST, np.uint64(0)
        for place in range(count):
            slot = used[np.uint64(place)]
            total = sums[unsigned(slot)]
            if total < best_sum:
                continue
            label = keys[unsigned(slot)] - 1
            if len(cells) and cells[unsigned(label)] != cells[unsigned(own)]:
                continue
            mix = _mix(label, salt)
            if total == best_sum and mix <= best_mix:
                continue
            if attempt < ATTEMPTS or sizes[unsigned(label)] <= most:
                best, best_sum, best_mix, best_slot = label, total, mix, unsigned(slot)
        if best == own or sizes[unsigned(best)] <= most:
            break
        sums[best_slot] = 0
    return best


@compiled
def _propose(
    graph: Graph,
    nodes: Labels,
    labels: Labels,
    cells: Labels,
    sizes: Labels,
    most: int,
    salt: int,
    room: tuple[Integers, Labels],
    proposed: Labels,
) -> None:
    """Propose for each node the heaviest label around it whose cluster has room, or else its own."""
    table, around = room
    keys, sums, used = table[0], table[1], table[2]
    most_around = min(LOOKED_UP, len(around))
    looked_up, begin, end = 0, 0, 0
    for i in range(len(nodes)):
        if i == looked_up:
            end = 0
            while looked_up < len(nodes):
                v = nodes[looked_up]
                if looked_up > i and end + graph.offsets[v + 1] - graph.offsets[v] > most_around:
                    break
                end = look_around(graph, v, labels, around, end)
                looked_up += 1
            begin = 0
        v = nodes[i]
        own = labels[v]
        end = begin + graph.offsets[v + 1] - graph.offsets[v]
        count, own_sum = _count_labels(graph, v, own, around[begin:end], table)
        begin = end
        size = graph.node_weights[v] if len(graph.node_weights) else 1
        proposed[i] = _best_label(own, own_sum, count, table, cells, sizes, most - size, v + salt)
        for place in range(count):
            slot = unsigned(used[np.uint64(place)])
            keys[slot], sums[slot] = FREE, 0


@compiled
def _enter(
    nodes: Labels, proposed: Labels, node_weights: Integers, most: int, labels: Labels, sizes: Labels
) -> int:
    """Give nodes their proposed labels while the clusters have room; return the number of changes."""
    moved = 0
    for i in range(len(nodes)):
        v, label = unsigned(nodes[i]), proposed[i]
        own = labels[v]
        size = node_weights[v] if len(node_weights) else 1
        if label != own and sizes[unsigned(label)] + size <= most:
            sizes[unsigned(own)] -= size
            sizes[unsigned(label)] += size
            labels[v] = label
            moved += 1
    return moved


class _Piece(NamedTuple):
    """Some consecutive clusters: their neighbours, with gaps in between, weights, and how many of each."""

    begin: int
    found: Labels
    weights: Integers
    sizes: Integers


def contract(graph: Graph, labels: Labels) -> tuple[Graph, Labels]:
    """Return the graph whose nodes are the clusters, and (nodes,) int32, its node for each node.

    An edge weighs as much as all edges between the two clusters.

    Peak memory: 12 bytes a node, 12 bytes a half-edge of the contracted graph, 50 MiB, and 12 bytes a
    cluster for each thread.
    """
    used = np.zeros(len(labels), np.int32)
    used[labels] = 1
    numbers = np.cumsum(used, dtype=np.int32) - 1
    dense, count = numbers[labels], int(numbers[-1]) + 1
    del used, numbers
    starts, members = members_of(dense, count)
    bounds = _bounds(graph.offsets, dense, count)
    sizes = np.zeros(count, np.int64)
    neighbours, edge_weights = np.empty(0, np.int32), np.empty(0, np.int64)
    ends = [0]  # of pieces of the clusters
    while ends[-1] < count:
        end = int(np.searchsorted(bounds, bounds[ends[-1]] + ENTRIES_AT_ONCE, side="right")) - 1
        ends.append(min(max(end, ends[-1] + 1), count))
    room = max((int(bounds[end] - bounds[begin]) for begin, end in pairwise(ends)), default=0)
    found, weights = np.empty(room, np.int32), np.empty(room, np.int64)
    with Batches(count) as batches:
        sums = np.zeros((batches.threads, count), np.int64)
        for begin, end in pairwise(ends):
            piece = _Piece(begin, found, weights, sizes)

            def rows(thread: int, span: slice, piece: _Piece = piece) -> None:
                first, last = np.searchsorted(bounds, bounds[piece.begin] + np.array([span.start, span.stop]))
                _rows(graph, dense, starts, members, bounds, piece, int(first), int(last), sums[thread])

            batches.share(0, int(bounds[end] - bounds[begin]), rows)
            first = len(neighbours)
            for array in (neighbours, edge_weights):  # the system moves pages instead of copying
                array.resize(first + int(sizes[begin:end].sum()), refcheck=False)
            _pack(bounds, piece, end, neighbours[first:], edge_weights[first:])
    node_weights = np.diff(starts)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if len(graph.node_weights):
        node_weights = np.bincount(dense, weights=graph.node_weights, minlength=count).astype(np.int64)
    return Graph(offsets, neighbours, edge_weights, node_weights), dense


@compiled_with_arrays
def members_of(labels: Labels, count: int) -> tuple[Integers, Labels]:
    """Return where the nodes of each label begin, and the nodes, label by label: a counting sort."""
    starts = np.zeros(count + 1, np.int64)
    for v in range(len(labels)):
        starts[labels[v] + 1] += 1
    for label in range(count):
        starts[label + 1] += starts[label]
    places = starts[:-1].copy()
    members = np.empty(len(labels), np.int32)
    for v in range(len(labels)):
        members[places[labels[v]]] = v
        places[labels[v]] += 1
    return starts, members


@compiled_with_arrays
def _bounds(offsets: Integers, labels: Labels, count: int) -> Integers:
    """Return (clusters + 1,) int64, cumulative sums of the most neighbours that each cluster can have."""
    bounds = np.zeros(count + 1, np.int64)
    for v in range(len(labels)):
        bounds[labels[v] + 1] += offsets[v + 1] - offsets[v]
    for label in range(count):
        bounds[label + 1] = bounds[label] + min(bounds[label + 1], count - 1)
    return bounds


@compiled
def _rows(
    graph: Graph,
    labels: Labels,
    starts: Integers,
    members: Labels,
    bounds: Integers,
    piece: _Piece,
    first: int,
    last: int,
    sums: Integers,
) -> None:
    """Find the neighbours of the clusters from ``first`` to ``last``, each at its position in ``bounds``."""
    for label in range(first, last):
        at = bounds[label] - bounds[piece.begin]
        found, count = piece.found[at:], 0
        for i in range(starts[label], starts[label + 1]):
            prefetch_around(graph, members, i, starts[last], labels)
            v = members[i]
            begin, end = graph.offsets[v], graph.offsets[v + 1]
            near, weights = graph.neighbours[begin:end], graph.edge_weights[begin:end]
            for j in range(len(near)):
                other = labels[unsigned(near[j])]
                if other != label:
                    if sums[unsigned(other)] == 0:
                        found[count] = other
                        count += 1
                    sums[unsigned(other)] += weights[j] if len(weights) else 1
        for i in range(count):
            other = unsigned(found[i])
            piece.weights[at + i] = sums[other]
            sums[other] = 0
        piece.sizes[label] = count


@compiled
def _pack(bounds: Integers, piece: _Piece, last: int, neighbours: Labels, weights: Integers) -> None:
    """Copy neighbours and weights without the gaps between the clusters."""
    at = 0
    for label in range(piece.begin, last):
        begin = bounds[label] - bounds[piece.begin]
        for i in range(begin, begin + piece.sizes[label]):
            neighbours[at] = piece.found[i]
            weights[at] = piece.weights[i]
            at += 1


def merge(one: Graph, other: Graph, nodes: int) -> Graph:
    """Return a contracted graph with the edges of two, which have the same nodes, or some of them.

    If the first one has the edges of the nodes before some node of the graph that was contracted, and the
    other one those of the nodes after it, the result is as if that was contracted at once.

    ``nodes`` is the number of those that may be neighbours.

    Peak memory: 24 bytes a half-edge of both.
    """
    count = len(one.neighbours) + len(other.neighbours)
    neighbours, weights = np.empty(count, np.int32), np.empty(count, np.int64)
    offsets = _merge(one, other, np.zeros(nodes, np.int64), neighbours, weights)
    for array in (neighbours, weights):
        array.resize(int(offsets[-1]), refcheck=False)
    return one._replace(offsets=offsets, neighbours=neighbours, edge_weights=weights)


@compiled_with_arrays
def _merge(one: Graph, other: Graph, sums: Integers, neighbours: Labels, weights: Integers) -> Integers:
    """Write the neighbours of each node, in the order in which they are found; return the offsets."""
    offsets, at = np.zeros(len(one.offsets), np.int64), 0
    for v in range(len(offsets) - 1):
        for graph in (one, other):
            for j in range(graph.offsets[v], graph.offsets[v + 1]):
                u = graph.neighbours[j]
                if sums[u] == 0:
                    neighbours[at] = u
                    at += 1
                sums[u] += graph.edge_weights[j]
        for i in range(offsets[v], at):
            weights[i] = sums[neighbours[i]]
            sums[neighbours[i]] = 0
        offsets[v + 1] = at
    return offsets
