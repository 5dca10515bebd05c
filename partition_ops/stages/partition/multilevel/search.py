"""Local search that leaves local optima: k-way moves with rollback, within every constraint.

Sources: Fiduccia, Mattheyses, "A linear-time heuristic for improving network partitions" (1982); Sanders,
Schulz, "Engineering multilevel graph partitioning algorithms" (2011) for searches that begin at one node, and
Osipov, Sanders, "n-level graph partitioning" (2010) for the rule that ends a search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.batches import add_up_nodes
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    NOWHERE,
    Constraints,
    Graph,
    Integers,
    Labels,
)
from partition_ops.stages.partition.multilevel.refine import State, add, fits
from partition_ops.stages.partition.multilevel.tuning import LONGEST, SCALE
from partition_ops.system.compilation import (
    compiled,
    compiled_inline,
    compiled_with_arrays,
    prefetch_ahead,
    unsigned,
)

NOT_QUEUED = -1
MOST_PULL = 1 << 28  # of one node, so that sums fit 32 bits
Sums = npt.NDArray[np.int32]


class Homes(NamedTuple):
    """The partitions that nodes should rather stay in, and what leaving them costs."""

    nodes: Sums  # (nodes, parts) int32, how many nodes of the input graph in each node were in each partition
    price: float  # edges that leaving its partition must save, for each node of the input graph

    def pulls(self) -> Sums:
        """Return (nodes, parts) int32, for the sums of each node: like an edge that stays at its home."""
        pulls: Sums = np.round(np.minimum(self.nodes * (self.price * SCALE), MOST_PULL)).astype(np.int32)
        return pulls

    def of_most(self) -> Labels:
        """Return (nodes,) int32, the home of most nodes of the input graph in each node, or `NOWHERE`."""
        return np.where(self.nodes.any(axis=1), self.nodes.argmax(axis=1), NOWHERE).astype(np.int32)

    def contracted(self, labels: Labels, count: int) -> Homes:
        """Return the homes of ``count`` clusters; ``labels`` are (nodes,) int32, the cluster of each node."""
        nodes = np.zeros((count, self.nodes.shape[1]), np.int32)
        for part in range(nodes.shape[1]):
            nodes[:, part] = np.bincount(labels, weights=self.nodes[:, part], minlength=count)
        return self._replace(nodes=nodes)


class Search(NamedTuple):
    """Scratch arrays of the searches in one graph."""

    # (nodes, parts) int32, weight of the edges from each node to each partition, times `scale`, and the
    # prices of its homes
    sums: Sums
    scale: int  # factor of the weights of edges
    heap: Labels  # (nodes,) int32, queued nodes, the one with the largest gain first
    places: Labels  # (nodes,) int32, position of each node in the heap, or `NOT_QUEUED`
    gains: Integers  # (nodes,) int64, gain of each queued node
    # (nodes,) bool, nodes that the current pass has moved, or at which a search ended
    locked: npt.NDArray[np.bool_]
    moved: Labels  # (nodes,) int32, nodes that the current search has moved
    origins: Labels  # (nodes,) int32, the partitions that they left


def scratch(nodes: int, count: int, scale: int) -> Search:
    """Return the arrays for a graph; ``count`` is the number of partitions."""
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
            prefetch_ahead(state.parts, graph.neighbours, j)
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


@compiled_with_arrays
def border_of(state: State, sums: Sums) -> Labels:
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
            if mean >= 0 and steps > LONGEST:
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
def search_from(state: State, search: Search, border: Labels, patience: float, constant: float) -> int:
    """Search from every node of the border that no search has moved; return the saved weight."""
    saved = 0
    for i in range(len(border)):
        if not search.locked[border[i]]:
            saved += _search(state, search, border[i], patience, constant)
    return saved


def fill_up(graph: Graph, constraints: Constraints, parts: Labels, least: Integers, price: float) -> Labels:
    """Return partitions with more nodes in those that hold too few; moves that cut the fewest edges go first.

    Args:
        graph: The graph.
        constraints: Constraints on its nodes; no move exceeds a limit.
        parts: (nodes,) int32.
        least: (parts,) int64, nodes that a partition should hold; no partition is emptied below that.
        price: Share of the cut that all moves together may add.

    Peak memory: 4 bytes for each node and partition if one holds too few.
    """
    sizes = np.bincount(parts, minlength=len(least))
    light = np.flatnonzero(sizes < least)
    if not len(light):
        return parts
    filled, search = parts.copy(), scratch(graph.num_nodes, len(least), 1)
    state = State(graph, constraints, filled, constraints.loads(parts), NO_LABELS, 0.0)
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
