"""Local search that leaves local optima: k-way moves with rollback, within every constraint.

Sources: Fiduccia, Mattheyses, "A linear-time heuristic for improving network partitions" (1982); Sanders,
Schulz, "Engineering multilevel graph partitioning algorithms" (2011) for searches that begin at one node, and
Osipov, Sanders, "n-level graph partitioning" (2010) for the rule that ends a search.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partition_ops.stages.partition.multilevel.exchange import exchange
from partition_ops.stages.partition.multilevel.graph import Constraints, Graph, Integers, Labels
from partition_ops.stages.partition.multilevel.refine import NO_HOMES, NOWHERE, State, fits
from partition_ops.stages.partition.multilevel.sums import (
    NOT_QUEUED,
    SCALE,
    Homes,
    Search,
    Sums,
    pull_home,
    scratch,
    shift,
    sum_up,
)
from partition_ops.system.compilation import compiled, compiled_inline, compiled_with_arrays, unsigned

PASSES = 10
LITTLE = 1e-3  # share of the cut; after a pass that saves less, no other follows
SAMPLE, SAMPLES = 1 << 14, 32  # a pass that saves little ends after so many nodes, or such a share of them
PATIENCE = 1.0  # a search ends earlier if this is smaller; alpha of Osipov and Sanders
EXCHANGES = 3  # so often at most, nodes change places and searches follow


def climb(
    graph: Graph,
    constraints: Constraints,
    parts: Labels,
    seed: int,
    *,
    homes: Homes | None = None,
    passes: int = PASSES,
    patience: float = PATIENCE,
) -> int:
    """Move nodes in place until searches of moves, some of which cut more edges, save nothing any more.

    A search begins at a node at the border, moves the node with the largest gain, queues its neighbours, and
    so on; it keeps the moves up to the smallest cut that it has seen and reverts the rest. In a graph that is
    not contracted, nodes then change places with those of full partitions. The result depends on the seed
    only. All threads add up the sums; one thread searches, without the interpreter lock.

    Args:
        graph: Weighted or not.
        constraints: Constraints on its nodes; no move exceeds a limit.
        parts: (nodes,) int32, changed.
        seed: Decides the order of the searches.
        homes: Partitions that nodes should rather stay in; None if nodes move freely.
        passes: Most passes over all nodes at the border.
        patience: How long a search goes on without success.

    Returns:
        The weight of the edges that are no longer cut; with homes, that and the prices saved, times `SCALE`.

    Peak memory: 4 bytes for each node and partition, and 29 bytes a node.
    """
    nodes, count = graph.num_nodes, len(constraints.most)
    state = State(graph, constraints, parts, constraints.loads(parts), NO_HOMES, 0.0)
    search = scratch(nodes, count, 1 if homes is None else SCALE)
    cut = sum_up(state, search)
    if homes is not None:
        pull_home(search.sums, homes)
    random = np.random.default_rng(seed)
    saved = 0
    for _ in range(EXCHANGES):
        for _ in range(passes):
            border = random.permutation(_border(state, search.sums))
            search.locked[:] = False
            found, size = 0, max(SAMPLE, math.ceil(len(border) / SAMPLES))
            for begin in range(0, len(border), size):
                few = border[begin : begin + size]
                found += _pass(state, search, few, patience, math.log(max(nodes, 2)))
                if found * len(border) <= LITTLE * (cut - saved - found) * (begin + len(few)):
                    break  # the rest is expected to save as little
            saved += found
            if found <= LITTLE * (cut - saved):
                break
        exchanged = 0 if len(constraints.weights) else exchange(state, search, cut - saved)
        saved += exchanged
        if exchanged <= LITTLE * (cut - saved):
            break
    return saved


@compiled_with_arrays
def _border(state: State, sums: Sums) -> Labels:
    """Return the nodes with neighbours in other partitions."""
    found, count = np.empty(len(state.parts), np.int32), 0
    for v in range(len(state.parts)):
        for part in range(sums.shape[1]):
            if part != state.parts[v] and sums[v, part] > 0:
                found[count] = v
                count += 1
                break
    return found[:count]


@compiled_inline
def _target(state: State, sums: Sums, v: int) -> Any:
    """Return the partition that a node should move to, with room for it, or `NOWHERE`."""
    own, best = unsigned(state.parts[v]), np.int64(NOWHERE)
    column = 0 if len(state.constraints.weights) else state.constraints.classes[v]
    row = sums[unsigned(v)]
    stays = row[own]
    row[own] = 0
    most = np.int32(0)
    for part in range(np.uint64(len(row))):  # without branches, several at once
        most = max(most, row[part])
    if most > 0:
        for least in (np.int64(most), np.int64(1)):  # if no partition with the most has room, look at all
            for part in range(np.uint64(len(row))):
                if row[part] < least or (best >= 0 and row[part] < row[best]):
                    continue
                emptier = best < 0 or state.loads[part, column] < state.loads[best, column]
                if (emptier or row[part] > row[best]) and fits(state, v, part):
                    best = np.int64(part)
            if best >= 0:
                break
    row[own] = stays
    return best


@compiled_inline
def _swap(search: Search, one: int, other: int) -> None:
    v, u = search.heap[one], search.heap[other]
    search.heap[one], search.heap[other] = u, v
    search.places[u], search.places[v] = one, other


@compiled_inline
def _up(search: Search, place: int) -> None:
    while place > 0:
        above = (place - 1) // 2
        if search.gains[search.heap[above]] >= search.gains[search.heap[place]]:
            return
        _swap(search, above, place)
        place = above


@compiled_inline
def _down(search: Search, place: int, size: int) -> None:
    while True:
        below = 2 * place + 1
        if below >= size:
            return
        if below + 1 < size and search.gains[search.heap[below + 1]] > search.gains[search.heap[below]]:
            below += 1
        if search.gains[search.heap[place]] >= search.gains[search.heap[below]]:
            return
        _swap(search, below, place)
        place = below


@compiled_inline
def _queue(search: Search, v: int, gain: int, size: int) -> int:
    """Queue a node, or change its gain; return the size of the heap."""
    place = search.places[v]
    if place == NOT_QUEUED:
        place = size
        search.heap[place], search.places[v], search.gains[v] = v, place, gain
        _up(search, place)
        return size + 1
    before = search.gains[v]
    search.gains[v] = gain
    if gain > before:
        _up(search, place)
    elif gain < before:
        _down(search, place, size)
    return size


@compiled_inline
def _pop(search: Search, size: int) -> int:
    """Take the first node out of the heap, whose size was ``size``."""
    v = search.heap[0]
    _swap(search, 0, size - 1)
    search.places[v] = NOT_QUEUED
    _down(search, 0, size - 1)
    return int(v)


@compiled_inline
def _search(state: State, search: Search, start: int, patience: float, constant: float) -> int:
    """Move nodes, beginning with ``start``; keep the best prefix of the moves, and return what it saves."""
    graph, sums, parts = state.graph, search.sums, state.parts
    target = _target(state, sums, start)
    if target < 0:
        return 0
    size = _queue(search, start, sums[start, target] - sums[start, parts[start]], 0)
    total, best, kept, count = 0, 0, 0, 0
    steps, mean, squares = 0, 0.0, 0.0  # since the best cut; Welford's algorithm
    while size > 0:
        v = _pop(search, size)
        size -= 1
        target = _target(state, sums, v)
        if target < 0:
            continue
        own = parts[v]
        gain = sums[v, target] - sums[v, own]
        if size > 0 and gain < search.gains[search.heap[0]] and gain < search.gains[v]:
            size = _queue(search, v, gain, size)  # its gain was outdated
            continue
        search.locked[v] = True
        total += gain
        if total > best:
            best, kept = total, count + 1
            steps, mean, squares = 0, 0.0, 0.0
        else:
            steps += 1
            before = mean
            mean += (gain - mean) / steps
            squares += (gain - before) * (gain - mean)
            variance = squares / (steps - 1) if steps > 1 else 0.0
            if mean < 0 and steps * mean * mean > patience * variance + constant:
                break  # before the move, which would be reverted; most searches end at their first
            if mean >= 0 and steps > 100:
                break
        search.moved[count], search.origins[count] = v, own
        count += 1
        shift(state, search, v, target)
        for j in range(graph.offsets[v], graph.offsets[v + 1]):
            u = graph.neighbours[j]
            if search.locked[u]:
                continue
            place = _target(state, sums, u)
            if place >= 0:
                size = _queue(search, u, sums[u, place] - sums[u, parts[u]], size)
    for i in range(size):
        search.places[search.heap[i]] = NOT_QUEUED
    for i in range(count - 1, kept - 1, -1):
        shift(state, search, search.moved[i], search.origins[i])
    return best


@compiled
def _pass(state: State, search: Search, border: Labels, patience: float, constant: float) -> int:
    """Search from every node of the border that no search has moved; return the saved weight."""
    saved = 0
    for i in range(len(border)):
        if not search.locked[border[i]]:
            saved += _search(state, search, border[i], patience, constant)
    return saved


def fill_up(graph: Graph, constraints: Constraints, parts: Labels, least: Integers, price: float) -> Labels:
    """Move nodes into partitions that hold too few, those first whose move cuts the fewest edges.

    Args:
        graph: Without weights.
        constraints: Constraints on its nodes; no move exceeds a limit.
        parts: (nodes,) int32.
        least: (parts,) int64, nodes that a partition should hold; no partition is emptied below that.
        price: Share of the cut that all moves together may add.

    Returns:
        (nodes,) int32, the same partitions if filling them costs more.

    Peak memory: 4 bytes for each node and partition if one holds too few.
    """
    sizes = np.bincount(parts, minlength=len(least))
    light = np.flatnonzero(sizes < least)
    if not len(light):
        return parts
    filled, search = parts.copy(), scratch(graph.num_nodes, len(least), 1)
    state = State(graph, constraints, filled, constraints.loads(parts), NO_HOMES, 0.0)
    budget = int(price * sum_up(state, search))
    for part in light[np.argsort(sizes[light], kind="stable")].tolist():
        budget -= _fill(state, search, sizes, least, part, budget)
    return filled


@compiled
def _fill(state: State, search: Search, sizes: Integers, least: Integers, part: int, budget: int) -> int:
    """Fill one partition up as far as the budget allows; return what it costs."""
    graph, sums, parts = state.graph, search.sums, state.parts
    size, spent = 0, 0
    for v in range(len(parts)):
        if parts[v] != part and sums[v, part] > 0:
            size = _queue(search, v, sums[v, part] - sums[v, parts[v]], size)
    while size > 0 and sizes[part] < least[part]:
        v = _pop(search, size)
        size -= 1
        own = parts[v]
        gain = sums[v, part] - sums[v, own]
        if sizes[own] <= least[own] or not fits(state, v, part):
            continue
        if size > 0 and gain < search.gains[search.heap[0]] and gain < search.gains[v]:
            size = _queue(search, v, gain, size)
            continue
        if spent - gain > budget:
            break
        shift(state, search, v, part)
        sizes[own] -= 1
        sizes[part] += 1
        spent -= gain
        for j in range(graph.offsets[v], graph.offsets[v + 1]):
            u = graph.neighbours[j]
            if parts[u] != part:
                size = _queue(search, u, sums[u, part] - sums[u, parts[u]], size)
    for i in range(size):
        search.places[search.heap[i]] = NOT_QUEUED
    return spent
