"""The compiled loops of conversion."""

import numpy as np
import pytest

from partition_ops.stages.convert.edge_loops import RANGES, count_owners


@pytest.mark.parametrize(
    "sizes",
    [[5], [0, 3, 0, 0, 2, 0], [RANGES, 1, 0, 2 * RANGES + 7, 3], [1] * 3 * RANGES, [0, 10 * RANGES, 0]],
    ids=["one", "empty", "uneven", "small", "large"],
)
def test_owners_are_found_by_new_id(sizes: list[int]) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes)])
    new_ids = np.random.default_rng(0).permutation(starts[-1]).astype(np.int32)
    counts = np.zeros(len(sizes), np.int64)
    owners = count_owners(new_ids, starts, counts)
    assert owners.tolist() == (np.searchsorted(starts, new_ids, side="right") - 1).tolist()
    assert counts.tolist() == sizes
