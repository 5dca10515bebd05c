"""The rows that the caches of trainers save."""

from __future__ import annotations

import numpy as np
import pytest

from partition_ops.traffic.hot_rows import CURVE, Cacheable, CacheCurve


@pytest.mark.parametrize("own", [0, 1, 3, 10, 400])
@pytest.mark.parametrize("others", [0, 1, 2, 7, 500])
def test_the_curve_saves_the_rows_that_are_read_most(own: int, others: int) -> None:
    """As in a sort of all rows; in small partitions there is room for no row, or for fewer than are read."""
    parts = np.repeat(np.array([0, 1], np.int32), [own, others])
    cacheable = Cacheable(np.ones(own + others, np.bool_), parts, np.array([own, others]))
    reads = np.random.default_rng(own + others).random(own + others).astype(np.float32)
    curve = CacheCurve(cacheable)
    curve.add(0, reads)
    most = sorted(reads[own:].tolist(), reverse=True)
    assert curve.saved[0] == pytest.approx([sum(most[: int(share * own)]) for share in CURVE])
