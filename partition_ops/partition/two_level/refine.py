"""Refinement: nodes at the border of a partition move where they cut fewer edges, within every constraint.

As in `cluster`, nodes are worked on a batch at a time, and any number of threads gives the same result. A
proposal is looked at again before it is entered, so no move makes the cut larger but those that make room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from partition_ops.partition.two_level.batches import Batches
from partition_ops.partition.two_level.graph import Constraints, Graph, Integers, Labels

SWEEPS = 12
LITTLE = 2e-4  # share of the nodes; a sweep that moves fewer was the last
TIMES_BALANCED = 3
NEVER = np.iinfo(np.int64).max

Flags = npt.NDArray[np.bool_]


class _State(NamedTuple):
    """Partitions at work.

    Attributes:
        graph: The graph.
        constraints: Of its nodes.
        parts: (nodes,) int32.
        loads: (parts, columns) int64, what each partition holds.
    """

    graph: Graph
    constraints: Constraints
    parts: Labels
    loads: Integers

    @property
    def too_full(self) -> Integers:
        """The partitions that hold more of something than they may."""
        return np.flatnonzero((self.loads > self.constraints.most).any(axis=1))


def refine(graph: Graph, constraints: Constraints, parts: Labels) -> None:
    """Move nodes to the partition that most of their edges lead to, in place.

    Where a partition holds more than it may, the nodes whose going costs least go first.

    Args:
        graph: Weighted or not.
        constraints: Of its nodes.
        parts: (nodes,) int32, changed.

    Peak memory: 17 bytes a node; where partitions must be balanced, 24 bytes a node of theirs.
    """
    state = _State(graph, constraints, parts, constraints.loads(parts))
    _improve(state)
    for _ in range(TIMES_BALANCED):
        if not len(state.too_full) or not _balance(state):
            return
        _improve(state)


def _improve(state: _State) -> None:
    nodes = state.graph.num_nodes
    active = np.ones(nodes, np.bool_)
    proposed = np.empty(nodes, np.int32)
    with Batches(nodes) as batches:
        room = np.zeros((batches.threads, 2, len(state.loads)), np.int64)

        def propose(thread: int, span: slice) -> None:
            _propose(state, active, span.start, span.stop, room[thread], proposed)

        for _ in range(SWEEPS):
            moved = 0
            for span in batches.of(propose):
                moved += _enter(state, active, span.start, span.stop, room[0], proposed)
            if moved <= LITTLE * nodes:
                return


def _balance(state: _State) -> bool:
    """Move nodes out of partitions that hold too much; whether any could be."""
    room = np.zeros((2, len(state.loads)), np.int64)
    moved = 0
    for part in state.too_full:
        candidates = np.flatnonzero(state.parts == part)
        losses = _losses(state, candidates, room)
        able = np.flatnonzero(losses < NEVER)
        order = able[np.argsort(losses[able], kind="stable")]
        moved += _make_room(state, candidates[order], room)
    return moved > 0


@njit(cache=True, nogil=True, inline="always")
def _fits(state: _State, v: int, part: int | np.int64) -> bool:
    """Whether a partition has room for a node."""
    weights, most, loads = state.constraints.weights, state.constraints.most, state.loads
    if len(weights):
        for column in range(weights.shape[1]):
            if weights[v, column] and loads[part, column] + weights[v, column] > most[part, column]:
                return False
        return True
    column = state.constraints.classes[v]
    fits: bool = loads[part, column] + 1 <= most[part, column]
    if len(state.constraints.in_degrees):
        degree = state.constraints.in_degrees[v]
        column += most.shape[1] // 2
        fits &= degree == 0 or loads[part, column] + degree <= most[part, column]
    return fits


@njit(cache=True, nogil=True, inline="always")
def _helps(state: _State, v: int) -> bool:
    """Whether the partition of a node holds too much of something of which it would hold less without it."""
    weights, most, loads = state.constraints.weights, state.constraints.most, state.loads
    part = state.parts[v]
    if len(weights):
        for column in range(weights.shape[1]):
            if weights[v, column] and loads[part, column] > most[part, column]:
                return True
        return False
    column = state.constraints.classes[v]
    helps: bool = loads[part, column] > most[part, column]
    if len(state.constraints.in_degrees):
        column += most.shape[1] // 2
        helps |= state.constraints.in_degrees[v] > 0 and loads[part, column] > most[part, column]
    return helps


@njit(cache=True, nogil=True, inline="always")
def _add(state: _State, v: int, part: int | np.int64, sign: int) -> None:
    weights, loads = state.constraints.weights, state.loads
    if len(weights):
        for column in range(weights.shape[1]):
            loads[part, column] += sign * weights[v, column]
        return
    column = state.constraints.classes[v]
    loads[part, column] += sign
    if len(state.constraints.in_degrees):
        loads[part, column + loads.shape[1] // 2] += sign * state.constraints.in_degrees[v]


@njit(cache=True, nogil=True, inline="always")
def _move(state: _State, v: int, part: int | np.int64) -> None:
    _add(state, v, state.parts[v], -1)
    _add(state, v, part, 1)
    state.parts[v] = part


@njit(cache=True, nogil=True)
def _best(state: _State, v: int, room: Integers, must_go: bool) -> tuple[np.int64, int]:
    """The partition that a node should go to, and what the cut gains by it; its own and 0 if to none.

    Args:
        state: The partitions.
        v: The node.
        room: (2, parts) int64, the first row of zeros; so it is left.
        must_go: Whatever it costs, if need be where the node has no neighbours.
    """
    graph, parts, loads = state.graph, state.parts, state.loads
    sums, used = room[0], room[1]
    own = np.int64(parts[v])
    count = 0
    for j in range(graph.offsets[v], graph.offsets[v + 1]):
        part = parts[graph.neighbours[j]]
        if sums[part] == 0:
            used[count] = part
            count += 1
        sums[part] += graph.edge_weights[j] if len(graph.edge_weights) else 1
    column = 0 if len(state.constraints.weights) else state.constraints.classes[v]
    best, best_gain = own, 0
    for i in range(count):
        part = used[i]
        if part == own:
            continue
        gain = sums[part] - sums[own]
        better = gain > best_gain or (must_go and best == own)
        if gain == best_gain:  # as good: the emptier one
            better |= loads[part, column] + (best == own) < loads[best, column]
        if better and _fits(state, v, part):
            best, best_gain = part, gain
    if must_go and best == own:
        for part in range(len(loads)):
            emptier = best == own or loads[part, column] < loads[best, column]
            if part != own and emptier and _fits(state, v, part):
                best, best_gain = np.int64(part), -sums[own]
    for i in range(count):
        sums[used[i]] = 0
    return best, best_gain


@njit(cache=True, nogil=True)
def _propose(state: _State, active: Flags, begin: int, end: int, room: Integers, proposed: Labels) -> None:
    """Where each active node from ``begin`` to ``end`` should go."""
    for v in range(begin, end):
        proposed[v] = state.parts[v]
        if active[v]:
            proposed[v], _ = _best(state, v, room, False)


@njit(cache=True, nogil=True)
def _enter(state: _State, active: Flags, begin: int, end: int, room: Integers, proposed: Labels) -> int:
    """Move the nodes that should go, if that still holds; gives how many went."""
    moved = 0
    active[begin:end] = False
    offsets, neighbours = state.graph.offsets, state.graph.neighbours
    for v in range(begin, end):
        if proposed[v] == state.parts[v]:
            continue
        best, _ = _best(state, v, room, False)
        if best != state.parts[v]:
            _move(state, v, best)
            moved += 1
            active[v] = True
            for j in range(offsets[v], offsets[v + 1]):
                active[neighbours[j]] = True
    return moved


@njit(cache=True, nogil=True)
def _losses(state: _State, nodes: Integers, room: Integers) -> Integers:
    """What it costs that each of some nodes leaves its partition; `NEVER` where that helps nothing."""
    losses = np.full(len(nodes), NEVER)
    for i in range(len(nodes)):
        if _helps(state, nodes[i]):
            best, gain = _best(state, nodes[i], room, True)
            if best != state.parts[nodes[i]]:
                losses[i] = -gain
    return losses


@njit(cache=True, nogil=True)
def _make_room(state: _State, nodes: Integers, room: Integers) -> int:
    """Let nodes leave their partition, in their order, while it holds too much; gives how many did."""
    moved = 0
    for i in range(len(nodes)):
        if _helps(state, nodes[i]):
            best, _ = _best(state, nodes[i], room, True)
            if best != state.parts[nodes[i]]:
                _move(state, nodes[i], best)
                moved += 1
    return moved
