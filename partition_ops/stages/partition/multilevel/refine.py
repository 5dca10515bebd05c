"""Refinement: nodes at the border of a partition move if that cuts fewer edges, within every constraint.

As in `cluster`, nodes are processed a batch at a time, and any number of threads gives the same result. A
proposal is checked again before it is entered, so only moves that restore balance can make the cut larger.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.batches import Batches
from partition_ops.stages.partition.multilevel.graph import (
    NO_LABELS,
    NOWHERE,
    Constraints,
    Graph,
    Integers,
    Labels,
    look_around,
    prefetch_around,
)
from partition_ops.stages.partition.multilevel.spread import WHOLE, Whole
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, LOOKED_UP, Tuning
from partition_ops.system.compilation import compiled, compiled_inline, unsigned

MOST_NARROW = 127  # partitions that fit 8 bits
NEVER = np.inf

Flags = npt.NDArray[np.bool_]
Parts = npt.NDArray[Any]


class State(NamedTuple):
    """The partitions that are being refined."""

    graph: Graph
    constraints: Constraints  # constraints on its nodes
    parts: Parts  # (nodes,) int8 or int32
    loads: Integers  # (parts, columns) int64, what each partition holds
    # (nodes,) int32, the partition that each node should rather stay in, `NOWHERE` for none; or empty
    homes: Labels
    price: float  # edges that a node must save to leave its home, for each node of the input graph in it

    @property
    def too_full(self) -> Integers:
        """Numbers of the partitions that exceed a limit."""
        return np.flatnonzero((self.loads > self.constraints.most).any(axis=1))


class Room(NamedTuple):
    """Scratch arrays of one thread: zeros for each partition, the used ones, and partitions of neighbours.

    The last one of `used` is written to, but not read.
    """

    sums: Integers
    used: Integers
    around: Parts

    @classmethod
    def of(cls, state: State, spread: Whole) -> Room:
        count = len(state.loads)
        around = np.empty(spread.most_looked_up(state.graph), state.parts.dtype)
        return cls(np.zeros(count, np.int64), np.empty(count + 1, np.int64), around)


def narrow(parts: Labels, count: int) -> Parts:
    """Return a copy of numbers below ``count`` in 8 bits if they fit, otherwise in 32.

    More of it is in the cache: sums over the half-edges of 19 million nodes take 1.6 to 2.2 instead of 2.7 to
    4.6 s.
    """
    return parts.astype(np.int8 if count <= MOST_NARROW else np.int32)


def refine(
    graph: Graph,
    constraints: Constraints,
    parts: Labels,
    *,
    homes: Labels = NO_LABELS,
    price: float = 0,
    active: Flags | None = None,
    tuning: Tuning = DEFAULT,
    spread: Whole = WHOLE,
) -> bool:
    """Move nodes to the partition that most of their edges lead to, in place.

    If a partition holds more than it may, those nodes leave first whose leaving costs least.

    Args:
        graph: Weighted or not.
        constraints: Constraints on its nodes.
        parts: (nodes,) int32, changed.
        homes: See `State`, as for the price.
        price: See `State`.
        active: (nodes,) bool, nodes to process first, changed; the neighbours of nodes that move follow.
            None means all.
        tuning: How often nodes may move.
        spread: Where the neighbours are.

    Returns:
        Whether every partition is within its limits.

    Peak memory: 9 bytes a node, 12 with more than 127 partitions, 16 or more if in-degrees are balanced;
    to restore balance, 24 bytes for each node of a partition that is too full.
    """
    state = State(
        graph,
        constraints,
        narrow(parts, len(constraints.most)),
        constraints.loads(parts),
        homes,
        float(price),
    )
    everywhere = active is None
    active = np.ones(graph.num_nodes, np.bool_) if active is None else active
    rooms = [Room.of(state, spread)]
    _sweep(state, active, rooms, tuning, spread)
    for _ in range(tuning.times_balanced):
        if not len(state.too_full) or not _balance(state, active, rooms, spread):
            break
        active |= everywhere
        _sweep(state, active, rooms, tuning, spread)
    parts[:] = state.parts
    return not len(state.too_full)


def restore_balance(
    graph: Graph,
    constraints: Constraints,
    parts: Labels,
    *,
    homes: Labels = NO_LABELS,
    price: float = 0,
    tuning: Tuning = DEFAULT,
) -> bool:
    """Move nodes out of partitions that hold too much, those first that cost least; else as `refine`.

    Only nodes around those move too, if that pays.
    """
    none = np.zeros(graph.num_nodes, np.bool_)
    return refine(graph, constraints, parts, homes=homes, price=price, active=none, tuning=tuning)


def _sweep(state: State, active: Flags, rooms: list[Room], tuning: Tuning, spread: Whole) -> None:
    nodes = state.graph.num_nodes
    proposed = np.empty(nodes, state.parts.dtype)
    with Batches(nodes) as batches:
        rooms += [Room.of(state, spread) for _ in range(len(rooms), batches.threads)]

        def propose(thread: int, span: slice) -> None:
            _propose(state, active, span.start, span.stop, rooms[thread], proposed)

        for _ in range(tuning.refine_sweeps):
            moved = 0
            for span in batches.of(propose):
                near = state._replace(graph=spread.moving(state.graph, span, proposed, state.parts))
                moved += _enter(near, active, span.start, span.stop, rooms[0], proposed)
            if moved <= tuning.refine_settled * nodes:
                return


def _balance(state: State, active: Flags, rooms: list[Room], spread: Whole) -> bool:
    """Move nodes out of partitions that hold too much, and activate neighbours; return if any moved."""
    moved = 0
    for part in state.too_full:
        candidates = np.empty(np.count_nonzero(state.parts == part), np.int64)
        candidates = candidates[: _relieving(state, part, candidates)]
        losses = spread.for_each(lambda nodes: _all_losses(state, nodes, rooms), candidates)
        able = np.flatnonzero(losses < NEVER)
        order = able[np.argsort(losses[able], kind="stable")]
        for nodes, graph in spread.in_turns(state.graph, candidates[order]):
            moved += _make_room(state._replace(graph=graph), nodes, active, rooms[0])
            if part not in state.too_full:
                break
    return moved > 0


@compiled
def _relieving(state: State, part: int, found: Integers) -> int:
    """List the nodes that help a partition by leaving it, ascending; return how many they are."""
    count = 0
    for v in range(len(state.parts)):
        if state.parts[unsigned(v)] == part and helps(state, v):
            found[unsigned(count)] = v
            count += 1
    return count


def _all_losses(state: State, nodes: Integers, rooms: list[Room]) -> npt.NDArray[np.float64]:
    """Return `_losses` of some nodes, `NEVER` where they cannot leave; there is a room for each thread."""
    losses = np.full(len(nodes), NEVER)

    def look(thread: int, span: slice) -> None:
        _losses(state, nodes[span], rooms[thread], losses[span])

    with Batches(len(nodes)) as batches:
        batches.share(0, len(nodes), look)  # none depends on another
    return losses


@compiled_inline
def fits(state: State, v: int, part: int | np.int64) -> bool:
    """Return whether a partition has room for a node."""
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
        column = state.constraints.degree_columns[column]
        fits &= degree == 0 or loads[part, column] + degree <= most[part, column]
    return fits


@compiled_inline
def helps(state: State, v: int) -> bool:
    """Return whether the partition of a node exceeds a limit to which the node contributes."""
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
        column = state.constraints.degree_columns[column]
        helps |= state.constraints.in_degrees[v] > 0 and loads[part, column] > most[part, column]
    return helps


@compiled_inline
def add(state: State, v: int, part: int | np.int64, sign: int) -> None:
    """Add a node to the load of a partition, or take it away with ``sign`` -1."""
    weights, loads = state.constraints.weights, state.loads
    if len(weights):
        for column in range(weights.shape[1]):
            loads[part, column] += sign * weights[v, column]
        return
    column = state.constraints.classes[v]
    loads[part, column] += sign
    if len(state.constraints.in_degrees):
        loads[part, state.constraints.degree_columns[column]] += sign * state.constraints.in_degrees[v]


@compiled_inline
def _move(state: State, v: int, part: int | np.int64) -> None:
    add(state, v, state.parts[v], -1)
    add(state, v, part, 1)
    state.parts[v] = part


@compiled_inline
def _activate(graph: Graph, v: int, active: Flags) -> None:
    """Activate a node and its neighbours."""
    active[v] = True
    for neighbour in graph.neighbours[graph.offsets[v] : graph.offsets[v + 1]]:
        active[unsigned(neighbour)] = True


@compiled_inline
def _best(state: State, v: int, around: Parts, room: Room, must_go: bool) -> tuple[np.int64, float]:
    """Return the partition that a node should move to, and the gain; its own and 0 if it should stay.

    The gain is the weight of the edges that are no longer cut, less the price if the node leaves its home.
    With ``must_go``, it leaves at any cost, if necessary to a partition without neighbours.
    """
    graph, loads, sums, used = state.graph, state.loads, room.sums, room.used
    own = np.int64(state.parts[v])
    begin = graph.offsets[v]
    weights = graph.edge_weights[begin : begin + len(around)]
    count = np.uint64(0)
    for i in range(len(around)):  # without branches that the processor cannot predict
        part = around[i]
        weight = weights[i] if len(weights) else 1
        before = sums[unsigned(part)]
        sums[unsigned(part)] = before + weight
        used[count] = part
        count += np.uint64(before == 0)
    if count == 1 and used[0] == own and not must_go and not len(state.homes):
        sums[own] = 0
        return own, 0.0
    column = 0 if len(state.constraints.weights) else state.constraints.classes[v]
    home = np.int64(state.homes[v]) if len(state.homes) else np.int64(NOWHERE)
    price = state.price * (graph.node_weights[v] if len(graph.node_weights) else 1)
    stays = sums[own] + (price if home == own else 0.0)
    best, best_gain = own, 0.0
    for i in range(count):
        part = used[unsigned(i)]
        if part == own:
            continue
        gain = sums[part] + (price if home == part else 0.0) - stays
        better = gain > best_gain or (must_go and best == own)
        if gain == best_gain:  # equally good: take the emptier one
            better |= loads[part, column] + (best == own) < loads[best, column]
        if better and fits(state, v, part):
            best, best_gain = part, gain
    if must_go and best == own:
        for other in range(len(loads)):
            part = np.int64(other)
            emptier = best == own or loads[part, column] < loads[best, column]
            if part != own and emptier and fits(state, v, part):
                best, best_gain = part, (price if home == part else 0.0) - stays
    for i in range(count):
        sums[used[unsigned(i)]] = 0
    return best, best_gain


@compiled
def _best_now(state: State, v: int, room: Room, must_go: bool) -> tuple[np.int64, float]:
    """Return `_best` of one node with the partitions as they are now."""
    end = look_around(state.graph, v, state.parts, room.around, 0)
    return _best(state, v, room.around[:end], room, must_go)


@compiled
def _propose(state: State, active: Flags, begin: int, end: int, room: Room, proposed: Parts) -> None:
    """Propose a partition for each active node from ``begin`` to ``end``."""
    offsets, most = state.graph.offsets, min(LOOKED_UP, len(room.around))
    first = begin
    while first < end:
        last, filled = first, 0
        while last < end:
            degree = offsets[last + 1] - offsets[last] if active[last] else 0
            if last > first and filled + degree > most:
                break
            if active[last]:
                filled = look_around(state.graph, last, state.parts, room.around, filled)
            last += 1
        at = 0
        for v in range(first, last):
            proposed[v] = state.parts[v]
            if active[v]:
                degree = offsets[v + 1] - offsets[v]
                proposed[v], _ = _best(state, v, room.around[at : at + degree], room, False)
                at += degree
        first = last


@compiled
def _enter(state: State, active: Flags, begin: int, end: int, room: Room, proposed: Parts) -> int:
    """Move the nodes with proposals that still pay; return how many moved."""
    moved = 0
    active[begin:end] = False
    for v in range(begin, end):
        if proposed[v] == state.parts[v]:
            continue
        best, _ = _best_now(state, v, room, False)
        if best != state.parts[v]:
            _move(state, v, best)
            moved += 1
            _activate(state.graph, v, active)
    return moved


@compiled
def _losses(state: State, nodes: Integers, room: Room, losses: npt.NDArray[np.float64]) -> None:
    """Write the cost of moving each node of `_relieving` out of its partition, unless it fits nowhere else.

    For clusters that have homes, it is the cost divided by the relief: a few large clusters that are worth it
    leave before many small ones.
    """
    for i in range(len(nodes)):
        prefetch_around(state.graph, nodes, i, len(nodes), state.parts)
        best, gain = _best_now(state, nodes[i], room, True)
        if best != state.parts[nodes[i]]:
            losses[i] = -gain
            if len(state.homes) and len(state.constraints.weights):
                relief = _relief(state, nodes[i])
                losses[i] = losses[i] / relief if losses[i] > 0 else losses[i] * relief


@compiled_inline
def _relief(state: State, v: int) -> float:
    """Return the excess of a partition that leaves with a cluster, as shares of the limits, summed."""
    relief, part = 0.0, state.parts[v]
    for column in range(state.loads.shape[1]):
        most = state.constraints.most[part, column]
        taken = min(state.loads[part, column] - most, state.constraints.weights[v, column])
        if taken > 0:
            relief += taken / max(most, 1)
    return relief


@compiled
def _make_room(state: State, nodes: Integers, active: Flags, room: Room) -> int:
    """Move nodes out of their partition, in order, while it holds too much; return how many moved."""
    moved = 0
    for i in range(len(nodes)):
        if helps(state, nodes[i]):
            best, _ = _best_now(state, nodes[i], room, True)
            if best != state.parts[nodes[i]]:
                _move(state, nodes[i], best)
                _activate(state.graph, nodes[i], active)
                moved += 1
    return moved
