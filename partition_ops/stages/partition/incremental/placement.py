"""Place the new nodes of a graph that has grown: dealt out, or beside their neighbours and refined."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    NOWHERE,
    Constraints,
    Graph,
    Integers,
    constraints_of,
)
from partition_ops.stages.partition.multilevel.levels import Level
from partition_ops.stages.partition.multilevel.refine import State, add, fits, refine
from partition_ops.stages.partition.problem import Parts, Problem, shares
from partition_ops.system.compilation import compiled, compiled_with_arrays


def deal_new_nodes(problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
    """Yield an assignment: old nodes stay, and new ones are dealt out, without a look at the edges.

    New nodes of every type go to the partitions that have too few of it.

    Peak memory: 24 bytes a node.
    """
    parts = previous.homes.copy()
    generator = np.random.default_rng(problem.config.seed)
    wanted = shares(problem.config)
    for begin, end in pairwise(problem.metadata.node_offsets):
        mine = parts[begin:end]
        new = np.flatnonzero(mine < 0)
        have = np.bincount(mine[mine >= 0], minlength=len(wanted))
        mine[new] = generator.permutation(_deck(have, len(new), wanted))
    constraints = constraints_of(problem)
    if constraints.kept_by(parts):
        yield parts


def place_and_refine(problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
    """Yield an assignment: new nodes go where their neighbours are, then nodes move if that pays.

    It looks at new nodes, old ones with another number of neighbours than before, and the neighbours of what
    moves. An old node pays `migration_price` for leaving its partition, unless balance needs it to.

    Peak memory: 40 bytes a node; the graph stays mapped.
    """
    graph, constraints = Level.of(problem)[:2]
    parts = previous.homes.copy()
    place_new_nodes(graph, constraints, parts)
    active = None
    if previous.degrees is not None:
        active = np.diff(graph.offsets) != previous.degrees
    price, tuning = problem.price, problem.tuning
    if refine(graph, constraints, parts, homes=previous.homes, price=price, active=active, tuning=tuning):
        yield parts


def place_new_nodes(graph: Graph, constraints: Constraints, parts: Parts) -> None:
    """Give every node whose partition is `NOWHERE` one, in place.

    Nodes with neighbours that have a partition go first, in several passes, because new nodes have new
    neighbours. Nodes that are connected to new nodes only go together, as far as there is room, to the
    emptiest partition.

    Peak memory: 25 bytes a new node, and 8 bytes a node.
    """
    old = parts != NOWHERE
    loads = constraints.subset(old).loads(parts[old])
    state = State(graph, constraints, parts, loads, NO_LABELS, 0.0)
    room = np.zeros((2, len(state.loads)), np.int64)
    nodes = np.flatnonzero(~old)
    while _place(state, nodes, room):
        nodes = nodes[parts[nodes] == NOWHERE]
    _spread(state, nodes, room)


def _deck(have: npt.NDArray[np.int64], new: int, wanted: npt.NDArray[np.float64]) -> Parts:
    """Return (new,) int32, partitions for new nodes: always the one whose old nodes fill it least."""
    lacking = np.ceil(wanted * (have.sum() + new)).astype(np.int64) + 1 - have
    counts = lacking.clip(0, new)
    fullness = [
        np.arange(1 + held, 1 + held + count) / share
        for held, count, share in zip(have, counts, wanted, strict=True)
    ]
    owners = np.repeat(np.arange(len(have), dtype=np.int32), counts)
    return owners[np.argsort(np.concatenate(fullness), kind="stable")[:new]]


@compiled
def _place(state: State, nodes: Integers, room: Integers) -> int:
    """Place nodes that have neighbours with a partition; return how many."""
    placed = 0
    for i in range(len(nodes)):
        for j in range(state.graph.offsets[nodes[i]], state.graph.offsets[nodes[i] + 1]):
            if state.parts[state.graph.neighbours[j]] != NOWHERE:
                _enter(state, nodes[i], room)
                placed += 1
                break
    return placed


@compiled_with_arrays
def _spread(state: State, nodes: Integers, room: Integers) -> None:
    """Place nodes without a neighbour that has a partition, each followed by its own neighbours."""
    queue = np.empty(len(nodes), np.int64)
    queued = np.zeros(len(state.parts) if len(nodes) else 0, np.bool_)
    for i in range(len(nodes)):
        if queued[nodes[i]]:
            continue
        queue[0] = nodes[i]
        queued[nodes[i]] = True
        first, last = 0, 1
        while first < last:
            v = queue[first]
            first += 1
            _enter(state, v, room)
            for j in range(state.graph.offsets[v], state.graph.offsets[v + 1]):
                other = state.graph.neighbours[j]
                if not queued[other] and state.parts[other] == NOWHERE:
                    queued[other] = True
                    queue[last] = other
                    last += 1


@compiled
def _enter(state: State, v: int, room: Integers) -> None:
    """Give a node the best partition that has room for it, or the emptiest one."""
    graph, parts, loads = state.graph, state.parts, state.loads
    sums, used = room[0], room[1]
    count = 0
    for j in range(graph.offsets[v], graph.offsets[v + 1]):
        part = parts[graph.neighbours[j]]
        if part != NOWHERE:
            if sums[part] == 0:
                used[count] = part
                count += 1
            sums[part] += graph.edge_weights[j] if len(graph.edge_weights) else 1
    column = state.constraints.classes[v]
    best, best_sum = NOWHERE, 0
    for i in range(count):
        part = used[i]
        better = sums[part] > best_sum
        if sums[part] == best_sum:
            better = loads[part, column] < loads[best, column]
        if better and fits(state, v, part):
            best, best_sum = part, sums[part]
    if best == NOWHERE:  # the one with the most room for the class, if possible with room for the node
        best, most = 0, state.constraints.most
        for part in range(1, len(loads)):
            able, best_able = fits(state, v, part), fits(state, v, best)
            more = most[part, column] - loads[part, column] > most[best, column] - loads[best, column]
            if (able and not best_able) or (more and able == best_able):
                best = part
    for i in range(count):
        sums[used[i]] = 0
    add(state, v, best, 1)
    parts[v] = best
