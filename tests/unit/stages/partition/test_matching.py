"""The matching that numbers partitions, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partition_ops.stages.partition.incremental.matching import best_matching

scipy_optimize = pytest.importorskip("scipy.optimize", reason="SciPy is not installed")


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 12).flatmap(lambda n: arrays(np.int64, (n, n), elements=st.integers(0, 5))))
def test_ties_are_broken_as_by_scipy(weights: np.ndarray) -> None:
    rows, columns = scipy_optimize.linear_sum_assignment(weights, maximize=True)
    assert best_matching(weights).tolist() == columns[np.argsort(rows)].tolist()


@pytest.mark.parametrize("most", [1, 10, 1_000_000_000])
def test_large_matrices(most: int) -> None:
    weights = np.random.default_rng(most).integers(0, most, (150, 150), endpoint=True)
    _, columns = scipy_optimize.linear_sum_assignment(weights, maximize=True)
    assert best_matching(weights).tolist() == columns.tolist()
