"""Compiled loops of the model of the traffic; `model` says what they compute.

Each works on `WIDTH` columns at once, the batches of that many trainers, or on one; and on a range of nodes
or groups, so that several threads can share the work. A column of padding has no seeds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, compiled_inline, prefetch_ahead, unsigned

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Masks = npt.NDArray[np.uint64]
WIDTH = 4
MASKS = 64  # passes that have bits of their own; the others share them
MOST = 1 - 1e-13  # probability of an event that is certain, so that logarithms are finite


class Batches(NamedTuple):
    """The batches of a few trainers: from whose train nodes they are, and how likely each is a seed."""

    train: npt.NDArray[np.bool_]  # (nodes,) bool, the train nodes
    parts: Ids  # (nodes,) int32, the partition of each node
    # (columns,) int32, the partition whose train nodes are the seeds of a column; -1 for none, -2 for all
    # train nodes
    trainers: Ids
    chances: Floats  # (columns,) float64, probability that one of these nodes is a seed
    # (layers,) float64, number of edges of a group that are sampled in each layer; inf for all
    fanouts: Floats
    # (layers + 1, nodes) uint64, which batches may contain each node after so many layers, as `reach` writes
    # it; (0, 0) if all of them may
    near: Masks
    bit: np.uint64  # the bit of these batches there


@compiled_inline
def _seed_chance(batches: Batches, node: Any, column: int) -> Any:
    """Return the probability that a node is a seed of a column."""
    trainer = batches.trainers[column]
    chosen = batches.train[node] and (trainer == -2 or trainer == batches.parts[node])
    return batches.chances[column] if chosen else 0.0


@compiled_inline
def _is_far(batches: Batches, node: Any, layer: int) -> Any:
    """Return whether no batch contains a node after some layers, so that all of it is 0."""
    return len(batches.near) > 0 and batches.near[layer, node] & batches.bit == 0


@compiled
def reach(
    first: Counts, groups: Ids, group_nodes: Ids, near: Masks, layer: int, begin: int, end: int
) -> None:
    """Write ``near[layer]`` of some nodes, from the layer before."""
    for node in range(begin, end):
        found = near[layer - 1, node]
        for i in range(first[node], first[node + 1]):
            found |= near[layer - 1, unsigned(group_nodes[unsigned(groups[unsigned(i)])])]
        near[layer, node] = found


@compiled
def write_messages(
    group_nodes: Ids,
    group_sizes: Counts,
    joined: Counts,
    batches: Batches,
    entered: Singles,
    layer: int,
    messages: Singles,
    room: Floats,
    begin: int,
    end: int,
) -> None:
    """Write for some groups the chance that an edge of it is sampled up to a layer.

    A node that enters the batch in layer j is sampled in each later one: it misses an edge with probability
    prod(1 - y) over the layers from j + 1 on, y = min(1, fan-out / size). Layers count from 1; the first
    arguments are attributes of `SampledEdges`.

    Args:
        entered: (layers - 1, nodes, columns) float32, chance that a node enters in layer 1, 2 and so on.
        messages: (groups, columns) float32, zeros or of the layer before, output; or (groups, 2 columns), if
            the expected number of times that an edge is sampled up to this layer is wanted behind.
        room: (2, layers) float64, overwritten.
    """
    reached, times = room[0], room[1]  # by layer of entry
    width = len(batches.trainers)
    real = len(group_nodes) - len(joined)
    for group in range(begin, end):
        node = unsigned(group_nodes[group])
        if _is_far(batches, node, layer - 1):
            continue
        miss, expected = 1.0, 0.0
        for j in range(layer - 1, -1, -1):
            member = group
            while member >= real:
                y = min(1.0, batches.fanouts[j] / group_sizes[joined[member - real, 1]])
                miss *= 1.0 - y
                expected += y
                member = joined[member - real, 0]
            y = min(1.0, batches.fanouts[j] / group_sizes[member])
            miss *= 1.0 - y
            expected += y
            reached[j], times[j] = 1.0 - miss, expected
        for column in range(width):
            seed = _seed_chance(batches, node, column)
            chance, total = seed * reached[0], seed * times[0]
            for j in range(1, layer):
                here = entered[j - 1, node, column]
                chance += here * reached[j]
                total += here * times[j]
            messages[group, column] = chance
            if messages.shape[1] > width:
                messages[group, width + column] = total


@compiled
def enter(
    first: Counts,
    groups: Ids,
    batches: Batches,
    messages: Singles,
    entered: Singles,
    layer: int,
    begin: int,
    end: int,
) -> None:
    """Write ``entered[layer - 1]`` of some nodes, which is 0; see `write_messages`."""
    width = len(batches.trainers)
    for node in range(begin, end):
        if (first[node] == first[node + 1] and not batches.train[node]) or _is_far(batches, node, layer):
            continue
        a = b = c = d = 1.0
        for i in range(first[node], first[node + 1]):
            prefetch_ahead(messages, groups, i)
            group = unsigned(groups[unsigned(i)])
            a *= 1.0 - messages[group, 0]
            if width == WIDTH:
                b *= 1.0 - messages[group, 1]
                c *= 1.0 - messages[group, 2]
                d *= 1.0 - messages[group, 3]
        for column in range(width):
            missed = a if column == 0 else b if column == 1 else c if column == 2 else d
            before = _seed_chance(batches, node, column)
            now = 1.0 - (1.0 - before) * missed
            for j in range(1, layer):
                before += entered[j - 1, node, column]
            entered[layer - 1, node, column] = max(now - before, 0.0)


@compiled
def add_rows(
    first: Counts,
    groups: Ids,
    batches: Batches,
    messages: Singles,
    rows: Floats,
    neighbours: Floats,
    reads: Singles,
    begin: int,
    end: int,
) -> None:
    """Add up what batches read of some nodes, after the last layer.

    Args:
        messages: (groups, WIDTH) or (groups, 2 WIDTH) float32, of the last layer.
        rows: (WIDTH, parts) float64, increased by the expected rows that a batch reads from each partition.
        neighbours: (WIDTH, 2) float64, increased by the expected sampled edges whose source is in the
            partition of the trainer, and by the others, if the messages have the expected samples.
        reads: (nodes, WIDTH) float32, zeros, output: the chance that a batch reads each row; or (0, WIDTH).
    """
    sampled, layers = messages.shape[1] > WIDTH, len(batches.fanouts)
    for node in range(begin, end):
        if (first[node] == first[node + 1] and not batches.train[node]) or _is_far(batches, node, layers):
            continue
        part = batches.parts[unsigned(node)]
        a = b = c = d = 1.0
        e = f = g = h = 0.0
        for i in range(first[node], first[node + 1]):
            prefetch_ahead(messages, groups, i)
            group = unsigned(groups[unsigned(i)])
            a *= 1.0 - messages[group, 0]
            b *= 1.0 - messages[group, 1]
            c *= 1.0 - messages[group, 2]
            d *= 1.0 - messages[group, 3]
            if sampled:
                e += messages[group, 4]
                f += messages[group, 5]
                g += messages[group, 6]
                h += messages[group, 7]
        for column in range(WIDTH):
            missed = a if column == 0 else b if column == 1 else c if column == 2 else d
            edges = e if column == 0 else f if column == 1 else g if column == 2 else h
            seed = _seed_chance(batches, node, column)
            chance = 1.0 - (1.0 - seed) * missed
            rows[column, part] += chance
            neighbours[column, 0 if part == batches.trainers[column] else 1] += edges
            if len(reads):
                reads[node, column] = chance


@compiled
def weigh_edges(
    first: Counts, groups: Ids, messages: Singles, weights: Singles, begin: int, end: int
) -> None:
    """Write the expected rows that a batch reads over each out-edge of some nodes.

    A row is read with probability 1 - exp(-m), m being the sum over its edges of -log(1 - q), which are the
    messages here, in the first column; each edge gets its share of m.
    """
    for node in range(begin, end):
        total = 0.0
        for i in range(first[node], first[node + 1]):
            prefetch_ahead(messages, groups, i)
            total += messages[unsigned(groups[unsigned(i)]), 0]
        factor = -np.expm1(-total) / total if total > 0 else 0.0
        for i in range(first[node], first[node + 1]):
            weights[unsigned(i)] = messages[unsigned(groups[unsigned(i)]), 0] * factor


@compiled
def add_weights(first: Counts, groups: Ids, messages: Singles, begin: int, end: int) -> tuple[float, float]:
    """Return the sum of what `weigh_edges` would write, and the sum of its squares."""
    weights = squares = 0.0
    for node in range(begin, end):
        total = of_squares = 0.0
        for i in range(first[node], first[node + 1]):
            prefetch_ahead(messages, groups, i)
            message = np.float64(messages[unsigned(groups[unsigned(i)]), 0])
            total += message
            of_squares += message * message
        factor = -np.expm1(-total) / total if total > 0 else 0.0
        weights += total * factor
        squares += of_squares * factor * factor
    return weights, squares


@compiled
def take_logs(messages: Singles) -> None:
    """Replace each chance q in the first column by -log(1 - q)."""
    for group in range(len(messages)):
        messages[group, 0] = -np.log1p(-min(np.float64(messages[group, 0]), MOST))
