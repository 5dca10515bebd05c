"""Moves of nodes that lower the expected traffic of training, with the model of the traffic as the judge.

Edges that are cut say little about what trainers read: a row counts once for a batch, however many edges lead
to it, and it is remote or local to the trainer of the seeds, not to the partitions of the nodes between. So
nodes move to where the model's derivative says that they save most remote rows, the most urgent first, those
of the slowest trainers above all; the model then computes the traffic of the result. A step that does not
help is repeated with half as many nodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.graph import NO_LABELS, Constraints, Graph, Integers, Labels
from partition_ops.stages.partition.multilevel.refine import Flags, State, add, fits
from partition_ops.stages.partition.multilevel.tuning import SHARE_OF_MEAN, Descent
from partition_ops.system.compilation import compiled
from partition_ops.traffic.model import TrafficModel
from partition_ops.traffic.preferences import NOWHERE, preferences

Floats = npt.NDArray[np.float64]


def cost_of(rows: Floats) -> float:
    """Return the cost of an assignment: the rows of the slowest trainer, and a tenth of those of the mean."""
    return float(rows.max() + SHARE_OF_MEAN * rows.mean())


def descend(
    model: TrafficModel, graph: Graph, constraints: Constraints, parts: Labels, how: Descent, most: int
) -> Labels:
    """Return partitions with the same or a lower `cost_of` the expected traffic.

    Args:
        model: Model of the traffic, with the IDs of the graph.
        graph: The graph; its edges are not read.
        constraints: Constraints on its nodes; no move exceeds a limit.
        parts: (nodes,) int32.
        how: How large the steps are.
        most: Evaluations of the model.

    Peak memory: that of `preferences`, and 24 bytes a node.
    """
    count, step, evaluations = len(constraints.most), how.share * len(parts), 1
    rows = model.about_remote_rows(parts, count)
    cost = cost_of(rows)
    while evaluations < most and rows.any():
        wanted = preferences(model, parts, (rows / rows.mean()) ** how.power)
        evaluations += 2  # takes about as long
        nodes = np.flatnonzero(wanted.targets != NOWHERE)
        order: Integers = nodes[np.argsort(-wanted.gains[nodes], kind="stable")]
        lower = False
        while not lower and evaluations < most and step >= how.least:
            moved = parts.copy()
            state = State(graph, constraints, moved, constraints.loads(moved), NO_LABELS, 0.0)
            left = np.ones(len(order), np.bool_)
            nodes_moved = _move(state, order, left, wanted.targets, int(step))
            theirs = model.about_remote_rows(moved, count)
            evaluations += 1
            lower = cost_of(theirs) < (1 - how.settled) * cost
            if lower:
                parts, rows, cost = moved, theirs, cost_of(theirs)
                step *= how.growth
            else:
                step = nodes_moved / 2
        if not lower:
            break
    return parts


@compiled
def _move(state: State, order: Integers, left: Flags, targets: Labels, most: int) -> int:
    """Move nodes in order if there is room, again and again because those that leave make room.

    Returns:
        How many nodes moved.
    """
    moved, before = 0, -1
    while before < moved < most:
        before = moved
        for i in range(len(order)):
            v = order[i]
            if moved < most and left[i] and fits(state, v, targets[v]):
                add(state, v, state.parts[v], -1)
                add(state, v, targets[v], 1)
                state.parts[v] = targets[v]
                left[i] = False
                moved += 1
    return moved
