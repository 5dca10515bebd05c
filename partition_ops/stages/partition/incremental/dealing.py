"""How the engine ``random`` follows a graph that has grown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.engines.two_level.engine import constraints_of
from partition_ops.stages.partition.incremental.old import Old
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.stages.partition.weights import shares


def follow_by_dealing(problem: Problem, old: Old) -> Parts | None:
    """Old nodes stay, new ones are dealt out, of every type to the partitions that have too few of it.

    Returns:
        (nodes,) int32, partition by homogeneous ID; None where balance cannot be restored so.

    Peak memory: 24 bytes a node.
    """
    parts = old.homes.copy()
    generator = np.random.default_rng(problem.config.seed)
    wanted = shares(problem.config)
    for begin, end in pairwise(problem.metadata.node_offsets):
        mine = parts[begin:end]
        new = np.flatnonzero(mine < 0)
        have = np.bincount(mine[mine >= 0], minlength=len(wanted))
        mine[new] = generator.permutation(_deck(have, len(new), wanted))
    constraints = constraints_of(problem)
    return parts if (constraints.loads(parts) <= constraints.most).all() else None


def _deck(have: npt.NDArray[np.int64], new: int, wanted: npt.NDArray[np.float64]) -> Parts:
    """(new,) int32, the partitions that new nodes go to: always the one that is least full.

    Args:
        have: (parts,) old nodes.
        new: Number of new nodes.
        wanted: (parts,) the share of each partition.
    """
    lacking = np.ceil(wanted * (have.sum() + new)).astype(np.int64) + 1 - have
    counts = lacking.clip(0, new)
    fullness = [
        np.arange(1 + held, 1 + held + count) / share
        for held, count, share in zip(have, counts, wanted, strict=True)
    ]
    owners = np.repeat(np.arange(len(have), dtype=np.int32), counts)
    return owners[np.argsort(np.concatenate(fullness), kind="stable")[:new]]
