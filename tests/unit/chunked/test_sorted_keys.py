"""Keys that are sorted in ranges are those that numpy sorts."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.chunked import sorted_keys as module
from partition_ops.chunked.sorted_keys import FEW, sorted_keys

KEYS = st.one_of(st.integers(-2, 100), st.integers(0, 2**43), st.integers(0, 2**63 - 1))


@given(st.lists(KEYS, max_size=200), st.integers(0, 200), st.sampled_from([1, 4, 1 << 14]))
def test_few_keys_of_any_size(values: list[int], half: int, of_a_range: int) -> None:
    keys = np.array(values, np.int64)
    with mock.patch.multiple(module, FEW=0, OF_A_RANGE=of_a_range):
        found = sorted_keys([keys[:half], keys[half:]])
    assert found.dtype == np.int64 and found.tolist() == sorted(values)


@pytest.mark.parametrize("most", [0, 1, 1 << 20, (1 << 48) - 1, 1 << 48, (1 << 63) - 1])
def test_many_keys(most: int) -> None:
    random = np.random.default_rng(0)
    arrays = [random.integers(0, most, size, endpoint=True) for size in (FEW, 0, 3 * FEW + 1)]
    np.testing.assert_array_equal(sorted_keys(arrays), np.sort(np.concatenate(arrays)))


def test_many_keys_of_which_some_are_below_0() -> None:
    keys = np.random.default_rng(0).integers(-3, 1 << 40, 2 * FEW)
    np.testing.assert_array_equal(sorted_keys([keys]), np.sort(keys))
