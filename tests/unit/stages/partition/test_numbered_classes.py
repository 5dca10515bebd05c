"""Classes are numbered as numpy does it, whether their values are counted or sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partition_ops.stages.partition.problem import FEW_VALUES, _numbered

FAR = 2**62


@given(
    arrays(
        np.int64,
        st.integers(0, 40),
        elements=st.one_of(st.integers(-9, 9), st.integers(-FEW_VALUES, FEW_VALUES), st.integers(-FAR, FAR)),
    )
)
def test_values_are_numbered_in_their_order(values: np.ndarray) -> None:
    distinct, numbers = _numbered(values)
    expected, places = np.unique(values, return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert numbers.tolist() == places.tolist()


@pytest.mark.parametrize("most", [FEW_VALUES - 1, FEW_VALUES])
def test_the_limit_between_counting_and_sorting(most: int) -> None:
    distinct, numbers = _numbered(np.array([most, 0, most]))
    assert (distinct.tolist(), numbers.tolist()) == ([0, most], [1, 0, 1])
