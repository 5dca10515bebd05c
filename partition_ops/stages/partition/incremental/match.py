"""New partitions get the numbers of the old ones that they have most nodes of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts

MOST_PARTS = 4096  # the table of overlaps grows with the square


def renumbered(parts: Parts, before: Parts, config: PartitionConfig) -> Parts:
    """The same partitions with numbers by which fewest nodes move: an assignment of maximum overlap.

    A partition keeps its share, so numbers change hands only where `target_shares` are the same.

    Args:
        parts: (nodes,) int32, new partitions.
        before: (nodes,) int32, old ones; -1 for new nodes.
        config: Number of partitions; beyond 4096 the numbers stay.

    Returns:
        (nodes,) int32. Peak memory: 16 bytes a node, 16 bytes times the square of the number of partitions.
    """
    count = config.num_parts
    if count > MOST_PARTS:
        return parts
    old = np.flatnonzero((before >= 0) & (before < count))
    cells = parts[old].astype(np.int64) * count + before[old]
    overlaps = np.bincount(cells, minlength=count * count).reshape(count, count)
    return _numbers(overlaps, np.array(config.target_shares or [1.0] * count))[parts]


def _numbers(overlaps: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> Parts:
    """(parts,) int32, the old number for each new one."""
    from scipy.optimize import linear_sum_assignment

    numbers = np.arange(len(shares), dtype=np.int32)
    for share in np.unique(shares):
        same = np.flatnonzero(shares == share)
        rows, columns = linear_sum_assignment(overlaps[np.ix_(same, same)], maximize=True)
        numbers[same[rows]] = same[columns]
    return numbers
