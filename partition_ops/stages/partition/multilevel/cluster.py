"""Size-constrained label propagation: clusters of nodes that are tied to one another.

Source: Meyerhenke, Sanders, Schulz, "Partitioning complex networks via size-constrained clustering" (2014).
Our own addition is the order: nodes are processed a batch at a time. Every proposal of a batch is made from
the labels before the batch, and then all are entered in one order; so any number of threads gives the same
labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from partition_ops.stages.partition.multilevel.batches import Batches
from partition_ops.stages.partition.multilevel.graph import (
    LOOKED_UP,
    Graph,
    Integers,
    Labels,
    largest_degree,
    look_around,
    most_looked_up,
)

SWEEPS = 3  # with more sweeps, large clusters absorb small ones, which makes the result worse
LITTLE = 0.03  # share of the nodes; after a sweep that moves fewer, no other follows
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Fibonacci hashing, Knuth vol. 3, 6.4
STAFFORD = np.uint64(0xBF58476D1CE4E5B9)  # of the finalizer of splitmix64
FREE = 0  # what untouched memory holds: a slot has its label and one
NO_HOMES = np.zeros(0, np.int32)


def find_clusters(
    graph: Graph, most: int, seed: int, homes: Labels = NO_HOMES, *, sweeps: int = SWEEPS
) -> Labels:
    """Return the cluster of each node.

    Args:
        graph: Weighted or not.
        most: Weight that a cluster may reach, in nodes of the input graph.
        seed: Decides between labels that are equally good.
        homes: (nodes,) int32; only nodes with the same home share a cluster. Empty for no such limit.
        sweeps: How often every node may move to another cluster.

    Returns:
        (nodes,) int32, of values below the number of nodes.

    Peak memory: 32 bytes a node, and 200 bytes times the largest degree for each thread.
    """
    nodes = graph.num_nodes
    labels = np.arange(nodes, dtype=np.int32)
    sizes = graph.node_weights.copy() if len(graph.node_weights) else np.ones(nodes, np.int64)
    order = _by_degree(graph)
    proposed = np.empty(nodes, np.int32)
    with Batches(nodes) as batches:
        tables = _tables(graph, batches.threads)
        around = np.empty((batches.threads, most_looked_up(graph)), np.int32)
        for sweep in range(sweeps):
            salt = (seed * sweeps + sweep + 1) * nodes

            def propose(thread: int, span: slice, salt: int = salt) -> None:
                some, room = order[span], (tables[thread], around[thread])
                _propose(graph, some, labels, homes, sizes, most, salt, room, proposed[span])

            moved = 0
            for span in batches.of(propose):
                moved += _enter(order[span], proposed[span], graph.node_weights, most, labels, sizes)
            if moved <= LITTLE * nodes:
                break
    return labels


def _by_degree(graph: Graph) -> Integers:
    """Return the nodes by the power of two in their degree, low ones first: they have the least choice."""
    degrees = np.maximum(np.diff(graph.offsets), 1)
    return np.argsort(np.log2(degrees).astype(np.uint16), kind="stable")  # 16 bits: a radix sort


def _tables(graph: Graph, threads: int) -> Integers:
    """Allocate a hash table for the largest degree for each thread: (threads, 3, slots)."""
    most = max(largest_degree(graph.offsets), 1)
    return np.zeros((threads, 3, 1 << (4 * most).bit_length()), np.int64)


@njit(cache=True, nogil=True, inline="always")
def _mix(label: int | np.int32, salt: int) -> Any:
    """Return a pseudo-random number, to choose among labels that are equally good."""
    x = (np.uint64(label) * GOLDEN) ^ (np.uint64(salt) * STAFFORD)
    x ^= x >> np.uint64(29)
    x *= STAFFORD
    return x ^ (x >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def _count_labels(
    graph: Graph, v: int, own: int | np.int32, around: Labels, table: Integers
) -> tuple[int, int]:
    """Sum the weights of the edges to each label around a node in the table.

    Args:
        graph: The graph.
        v: The node.
        own: The label of the node.
        around: (neighbours,) int32, the labels of its neighbours.
        table: The hash table: labels, weights, and which slots are used.

    Returns:
        The number of used slots, and the weight of the edges to the node's own label.
    """
    keys, sums, used = table[0], table[1], table[2]
    begin = graph.offsets[v]
    bits = 2
    while (1 << bits) < 4 * len(around):
        bits += 1
    shift, last = np.uint64(64 - bits), (1 << bits) - 1
    count = 0
    for i in range(len(around)):  # without branches that the processor cannot predict
        label = around[i]
        slot = _slot(keys, label, shift, last)
        used[count] = slot
        count += keys[slot] == FREE
        keys[slot] = np.int64(label) + 1
        sums[slot] += graph.edge_weights[begin + i] if len(graph.edge_weights) else 1
    return count, sums[_slot(keys, own, shift, last)]


@njit(cache=True, nogil=True, inline="always")
def _slot(keys: Integers, label: int | np.int32, shift: Any, last: int) -> Any:
    """Return the slot of a label in the hash table, used or not."""
    slot = np.int64((np.uint64(label) * GOLDEN) >> shift)
    while keys[slot] != FREE and keys[slot] != np.int64(label) + 1:
        slot = (slot + 1) & last
    return slot


@njit(cache=True, nogil=True)
def _propose(
    graph: Graph,
    nodes: Integers,
    labels: Labels,
    homes: Labels,
    sizes: Integers,
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
        count, best_sum = _count_labels(graph, v, own, around[begin:end], table)
        begin = end
        size = graph.node_weights[v] if len(graph.node_weights) else 1
        best, best_mix = own, np.uint64(0)
        for place in range(count):
            slot = used[place]
            label, total = np.int32(keys[slot] - 1), sums[slot]
            keys[slot], sums[slot] = FREE, 0
            if total < best_sum or (total == best_sum and best == own):
                continue
            if len(homes) and homes[label] != homes[v]:  # a label is the number of a node
                continue
            mix = _mix(label, v + salt)
            if total == best_sum and mix <= best_mix:
                continue
            if sizes[label] + size <= most:
                best, best_sum, best_mix = label, total, mix
        proposed[i] = best


@njit(cache=True, nogil=True)
def _enter(
    nodes: Integers, proposed: Labels, node_weights: Integers, most: int, labels: Labels, sizes: Integers
) -> int:
    """Give nodes their proposed labels while the clusters have room; return the number of changes."""
    moved = 0
    for i in range(len(nodes)):
        v = nodes[i]
        own, label = labels[v], proposed[i]
        size = node_weights[v] if len(node_weights) else 1
        if label != own and sizes[label] + size <= most:
            sizes[own] -= size
            sizes[label] += size
            labels[v] = label
            moved += 1
    return moved
