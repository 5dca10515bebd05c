"""The refinement of a partition within every limit: moves of single nodes, searches, and exchanges.

In an exchange, nodes change places with those of full partitions, which no move of a single node may enter.
Source: Kernighan, Lin, "An efficient heuristic procedure for partitioning graphs" (1970), for pairs of nodes
that change places. Here one node leaves a full partition for any other, and one of the same class takes its
room. docs/decisions/search.md says what it saves.
"""

from __future__ import annotations

import math

import numpy as np

from partition_ops.stages.partition.multilevel.cluster import members_of
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    Constraints,
    Graph,
    Integers,
    Labels,
    without_light_edges,
)
from partition_ops.stages.partition.multilevel.refine import State, fits, helps, narrow, refine
from partition_ops.stages.partition.multilevel.search import (
    Homes,
    Search,
    border_of,
    scratch,
    search_from,
    shift,
    sum_up,
)
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, SCALE, Tuning
from partition_ops.system.compilation import compiled, compiled_inline, unsigned


def improve(
    graph: Graph,
    constraints: Constraints,
    parts: Labels,
    seed: int,
    *,
    homes: Homes | None = None,
    tuning: Tuning = DEFAULT,
) -> None:
    """Restore balance, make moves that pay (`refine`), and moves that pay together (`climb`)."""
    if homes is None:
        refine(graph, constraints, parts, tuning=tuning)
    else:
        refine(graph, constraints, parts, homes=homes.of_most(), price=homes.price, tuning=tuning)
    climb(graph, constraints, parts, seed, homes=homes, tuning=tuning)


def climb(
    graph: Graph,
    constraints: Constraints,
    parts: Labels,
    seed: int,
    *,
    homes: Homes | None = None,
    tuning: Tuning = DEFAULT,
) -> int:
    """Move nodes in place until searches of moves, some of which cut more edges, save nothing any more.

    A search begins at a node at the border, moves the node with the largest gain, queues its neighbours, and
    so on; it keeps the moves up to the smallest cut that it has seen and reverts the rest. In a graph that is
    not contracted, nodes change places with those of full partitions, before and after. The result depends on
    the seed only. All threads add up the sums; one thread searches, without the interpreter lock.

    Returns:
        The weight of the edges that are no longer cut; with homes, that and the prices saved, times `SCALE`.
        0, and nothing moves, in a graph with more sums than `Tuning.most_sums`.

    Peak memory: 4 bytes for each node and partition, and 30 bytes a node, 33 with more than 127 partitions;
    those of `_exchange` and `without_light_edges`.
    """
    nodes, count = graph.num_nodes, len(constraints.most)
    if nodes * count > tuning.most_sums:
        return 0
    graph = without_light_edges(graph, count, tuning) if homes is None else graph
    state = State(graph, constraints, narrow(parts, count), constraints.loads(parts), NO_LABELS, 0.0)
    search = scratch(nodes, count, 1 if homes is None else SCALE)
    cut = sum_up(state, search)
    if homes is not None:
        search.sums[:] += homes.pulls()
    random = np.random.default_rng(seed)
    whole = not len(constraints.weights)
    saved = _exchange(state, search, cut, tuning) if whole else 0  # saves most in the least time
    for _ in range(tuning.exchanges):
        for _ in range(tuning.passes):
            border = random.permutation(border_of(state, search.sums))
            search.locked[:] = False
            found, size = 0, max(tuning.sample, math.ceil(len(border) / tuning.samples))
            for begin in range(0, len(border), size):
                few = border[begin : begin + size]
                more = search_from(state, search, few, tuning.patience, math.log(max(nodes, 2)))
                found += more
                if more * len(border) <= tuning.pass_settled * (cut - saved - found) * len(few):
                    break  # the rest is expected to save as little
            saved += found
            if found <= tuning.pass_settled * (cut - saved):
                break
        exchanged = _exchange(state, search, cut - saved, tuning) if whole else 0
        saved += exchanged
        if exchanged <= tuning.pass_settled * (cut - saved):
            break
    parts[:] = state.parts
    return saved


def _exchange(state: State, search: Search, cut: int, tuning: Tuning) -> int:
    """Let nodes change places until that saves little of the cut; return the weight that is no longer cut.

    Peak memory: 4 bytes a node, and 24 bytes for each node that may leave or enter a partition; they are
    listed in arrays that only searches need otherwise.
    """
    classes = state.constraints.classes
    starts, order = members_of(classes, int(classes.max(initial=0)) + 1)
    members = np.split(order, starts[1:-1])
    saved = 0
    for _ in range(tuning.exchange_rounds):
        found = 0
        for part in range(len(state.loads)):
            for column, nodes in enumerate(members):
                if not _is_full(state, part, column, tuning.nearly_full):
                    continue
                listed, gains = search.heap, search.gains
                leaving, count = _gains(state, search, nodes, part, listed, gains)
                leave = np.argsort(-gains[:leaving], kind="stable")
                enter = np.argsort(-gains[leaving:count], kind="stable") + leaving
                found += _exchange_sorted(state, search, part, listed, gains, leave, enter)
        saved += found
        if found <= tuning.exchange_settled * (cut - saved):
            break
    return saved


def _is_full(state: State, part: int, column: int, nearly: float) -> bool:
    """Return whether a partition may have no room for a node of a class."""
    loads, most = state.loads[part], state.constraints.most[part]
    full = loads[column] >= most[column]
    if len(state.constraints.in_degrees):  # a node of a large in-degree may not fit where a small one does
        column = state.constraints.degree_columns[column]
        full |= loads[column] >= nearly * most[column]
    return bool(full)


@compiled_inline
def _way_out(state: State, search: Search, v: int, free: int) -> int:
    """Return the other partition that most edges of a node lead to, with room or ``free``; -1 without any."""
    own, best, column = state.parts[v], -1, state.constraints.classes[v]
    for part in range(len(state.loads)):
        if part == own or (part != free and not fits(state, v, part)):
            continue
        more = search.sums[v, part] - search.sums[v, best] if best >= 0 else 1
        if more > 0 or (more == 0 and state.loads[part, column] < state.loads[best, column]):
            best = part
    return best


@compiled
def _gains(
    state: State, search: Search, nodes: Labels, part: int, found: Labels, gains: Integers
) -> tuple[int, int]:
    """List the nodes of a class that may leave a partition, then those that may enter it, with their gains.

    Returns:
        How many nodes leave, and how many are listed.
    """
    sums, count, best = search.sums, 0, 0
    for i in range(len(nodes)):
        v = nodes[i]
        if state.parts[v] == part:
            most = 0  # to any other partition; only one with room, or where room is made, is possible
            for other in range(np.uint64(sums.shape[1])):
                if other != unsigned(part):
                    most = max(most, sums[v, other])
            found[count], gains[count] = v, most - sums[v, part]
            best = gains[count] if count == 0 else max(best, gains[count])
            count += 1
    leaving = count
    for i in range(len(nodes)):
        v = nodes[i]
        gain = sums[v, part] - sums[v, state.parts[v]]
        if leaving and state.parts[v] != part and sums[v, part] > 0 and gain + best > 0:
            found[count], gains[count] = v, gain
            count += 1
    return leaving, count


@compiled
def _exchange_sorted(
    state: State,
    search: Search,
    part: int,
    found: Labels,
    gains: Integers,
    leave: Integers,
    enter: Integers,
) -> int:
    """Let nodes enter a full partition while others leave it, in order; return the weight saved."""
    parts, sums = state.parts, search.sums
    saved, i, j = 0, 0, 0
    while i < len(enter) and j < len(leave) and gains[enter[i]] + gains[leave[j]] > 0:
        u, v = found[enter[i]], found[leave[j]]
        gain, own = sums[u, part] - sums[u, parts[u]], parts[u]
        if fits(state, u, part):
            if gain > 0:
                shift(state, search, u, part)
                saved += gain
            i += 1
            continue
        other = _way_out(state, search, v, own)
        loss = sums[v, part] - sums[v, other] if other >= 0 else gain
        if gain <= loss:
            if gain < gains[enter[i]]:  # because of what has moved since
                i += 1
            else:
                j += 1
            continue
        shift(state, search, v, other)
        gain = sums[u, part] - sums[u, own]  # another one if they are neighbours
        if gain > loss:
            shift(state, search, u, part)
            if not (helps(state, u) or helps(state, v)):
                saved += gain - loss
                i += 1
                j += 1
                continue
            shift(state, search, u, own)
        shift(state, search, v, part)
        i += 1
    return saved
