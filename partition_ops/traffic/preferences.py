"""Preferences of nodes: the partition that each should move to, so that trainers read fewer remote rows.

The model is differentiated: for a train node, moving it to another partition means that the batches of that
trainer contain it, and those of its old one do not, so that they read what it reaches; for every node, its
row is then local to the one and remote to the other. Both are first-order changes, exact for a single node
whose neighbourhood few others of the batch share, and rough for many nodes that move together.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.parallel import map_in_threads
from partition_ops.traffic.loops import WIDTH
from partition_ops.traffic.model import RANGE, Parts, TrafficModel

Ids = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
NOWHERE = -1


class Preferences(NamedTuple):
    """The best move of each node."""

    targets: Parts  # (nodes,) int32, the partition to move to; `NOWHERE` if every other one is worse
    gains: Singles  # (nodes,) float32, expected remote rows that it saves in an epoch, times their importance


class _Columns(NamedTuple):
    """The trainers of a few columns."""

    trainers: Ids  # (WIDTH,) int32, their partitions; -1 for none
    chances: Floats  # (WIDTH,) float64, probability that one of their train nodes is a seed of a batch
    batches: Floats  # (WIDTH,) float64, batches of an epoch, times the importance of the trainer


def preferences(model: TrafficModel, parts: Parts, importance: Floats) -> Preferences:
    """Return the best move of each node, as if no other moved.

    Args:
        model: The model of the traffic.
        parts: (nodes,) int32, the partition of each node.
        importance: (parts,) float64, factor of the rows that each trainer reads from others.

    Peak memory: 48 bytes a node, 48 bytes a group, and what `TrafficModel.reads` takes. Time: two to three
    times that of `TrafficModel.traffic`.
    """
    num_parts, nodes = len(importance), model.edges.num_nodes
    seeds = np.bincount(parts[model.train], minlength=num_parts)
    stays, best = np.zeros(nodes, np.float32), np.full(nodes, -np.inf, np.float32)
    targets = np.full(nodes, NOWHERE, np.int32)
    for at in range(0, num_parts, WIDTH):
        some = range(at, min(at + WIDTH, num_parts))
        columns = _Columns(np.full(WIDTH, NOWHERE, np.int32), np.zeros(WIDTH), np.zeros(WIDTH))
        for number, part in enumerate(some):
            columns.trainers[number] = part
            if seeds[part]:
                chance, batches = model.equal_batches(int(seeds[part]))
                columns.chances[number], columns.batches[number] = chance, importance[part] * batches
        reads = model.reads_of_batches(parts, columns.trainers, columns.chances)
        reached = _reached(model, parts, columns, reads)
        each = partial(_compare, model.train, parts, columns, reads, reached, stays, best, targets)
        deque(map_in_threads(each, range(0, nodes, RANGE), workers=model.workers), maxlen=0)
    gains = best - stays
    targets[gains <= 0] = NOWHERE
    return Preferences(targets, gains)


def _reached(model: TrafficModel, parts: Parts, columns: _Columns, reads: Singles) -> Singles:
    """Return (nodes, WIDTH) float32: the further remote rows that a batch reads with this node as a seed."""
    edges = model.edges
    found = np.zeros((edges.num_nodes, WIDTH), np.float32)  # by a node that enters in the layer
    later = np.zeros((edges.num_groups, WIDTH), np.float32)  # by the edges of a group, in the layers after it
    for fanout in reversed(model.fanouts):
        sums = np.zeros((edges.num_groups, WIDTH), np.float32)
        each = partial(_send_back, edges.first, edges.groups, parts, columns.trainers, reads, found, sums)
        deque(map_in_threads(each, range(0, WIDTH, 2), workers=model.workers), maxlen=0)
        found[:] = 0
        _take_back(edges.group_nodes, edges.group_sizes, float(fanout), sums, later, found)
    return found


@compiled
def _send_back(
    first: Ids,
    groups: Ids,
    parts: Parts,
    trainers: Ids,
    reads: Singles,
    found: Singles,
    sums: Singles,
    column: int,
) -> None:
    """Add to each group what a batch gains by one more sample of each of its edges, in two columns."""
    left, right = trainers[column], trainers[column + 1]
    for u in range(len(first) - 1):
        one = two = np.float32(0.0)
        if left >= 0:
            one = (found[u, column] + np.float32(parts[u] != left)) * (1 - reads[u, column])
        if right >= 0:
            two = (found[u, column + 1] + np.float32(parts[u] != right)) * (1 - reads[u, column + 1])
        if one > 0 or two > 0:
            for i in range(first[u], first[u + 1]):
                group = unsigned(groups[unsigned(i)])
                sums[group, column] += one
                sums[group, column + 1] += two


@compiled
def _take_back(
    group_nodes: Ids, group_sizes: Ids, fanout: float, sums: Singles, later: Singles, found: Singles
) -> None:
    """Add to each node what its groups gain, by edges that are sampled now, or not now but later."""
    for group in range(len(group_nodes)):
        now = np.float32(min(1.0, fanout / group_sizes[group]))
        node = unsigned(group_nodes[group])
        for column in range(WIDTH):
            later[group, column] += now * (sums[group, column] - later[group, column])
            found[node, column] += later[group, column]


@compiled
def _compare(
    train: npt.NDArray[np.bool_],
    parts: Parts,
    columns: _Columns,
    reads: Singles,
    reached: Singles,
    stays: Singles,
    best: Singles,
    targets: Parts,
    begin: int,
) -> None:
    """Note what some nodes, from ``begin`` on, save where they are, and in the best other partition."""
    for v in range(begin, min(begin + RANGE, len(parts))):
        if not train[v] and not reads[v].any():
            continue
        for column in range(WIDTH):
            part = columns.trainers[column]
            if part < 0:
                continue
            chance, read = columns.chances[column], reads[v, column]
            own = part == parts[v]
            by_others = read
            if train[v] and own:  # its row is read by other nodes, or because it is a seed
                by_others = max((read - chance) / (1 - chance), 0.0) if chance < 1 else 0.0
            value = by_others - (chance * reached[v, column] if train[v] else 0.0)
            value *= columns.batches[column]
            if own:
                stays[v] = value
            elif value > best[v]:
                best[v] = value
                targets[v] = part
