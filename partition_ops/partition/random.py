"""Engine ``random``: no look at the edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from partition_ops.partition.problem import Parts, Problem


def partition_random(problem: Problem) -> Parts:
    """Deal every type's nodes out at random, so that two partitions differ by at most one node of a type.

    ``dgl.distributed.partition_graph`` draws a partition for each node, which leaves the shares to chance.

    Returns:
        (nodes,) int32, partition by homogeneous ID. Peak memory: 16 bytes a node.
    """
    offsets = problem.metadata.node_offsets
    generator = np.random.default_rng(problem.config.seed)
    parts = np.empty(offsets[-1], np.int32)
    dealt = 0  # goes on from type to type, so that small types do not all land in the first partitions
    for begin, end in pairwise(offsets):
        cards = (np.arange(dealt, dealt + end - begin) % problem.config.num_parts).astype(np.int32)
        parts[begin:end] = generator.permutation(cards)
        dealt += end - begin
    return parts
