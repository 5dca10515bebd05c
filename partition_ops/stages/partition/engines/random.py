"""Engine ``random``: nodes of every type dealt out evenly at random, for comparison."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from partition_ops.stages.partition.engine import Engine
from partition_ops.stages.partition.problem import Parts, Problem, shares

DECK = 1000  # cards that show unequal shares


class Random(Engine):
    """Random, but even."""

    name = "random"
    needs_graph = False
    dgl_name = "random"
    supports = frozenset({"target_shares", "num_trainers_per_machine"})

    def partition(self, problem: Problem) -> Parts:
        """Deal every type's nodes out at random, so that two partitions differ by at most one node of a type.

        ``dgl.distributed.partition_graph`` draws a partition for each node, which leaves shares to chance.

        Peak memory: 16 bytes a node.
        """
        offsets = problem.metadata.node_offsets
        generator = np.random.default_rng(problem.config.seed)
        parts = np.empty(offsets[-1], np.int32)
        deck = _deck(problem)
        dealt = 0  # goes on from type to type, so that small types do not all land in the first partitions
        for begin, end in pairwise(offsets):
            cards = deck[np.arange(dealt, dealt + end - begin) % len(deck)]
            parts[begin:end] = generator.permutation(cards)
            dealt += end - begin
        return parts


def _deck(problem: Problem) -> Parts:
    """Return the partitions in the order in which they are dealt, each as often as its share says."""
    if problem.config.target_shares is None:
        return np.arange(problem.num_parts, dtype=np.int32)
    counts = np.round(shares(problem.config) * DECK).astype(np.int64).clip(min=1)
    turns = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    owners = np.repeat(np.arange(problem.num_parts, dtype=np.int32), counts)
    return owners[np.argsort(turns, kind="stable")]


ENGINE = Random()


def without_cut(problem: Problem) -> Parts | None:
    """Return partitions of a graph in which there is nothing to cut; None for any other.

    It has no edges, or no more nodes than partitions, or one partition. METIS fails on several such graphs.
    """
    graph = problem.graph
    if problem.num_parts == 1:
        return np.zeros(graph.num_nodes, np.int32)
    if graph.num_half_edges == 0 or graph.num_nodes <= problem.num_parts:
        return ENGINE.partition(problem)
    return None
