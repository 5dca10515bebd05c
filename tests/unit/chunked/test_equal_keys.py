"""Equal keys, compared with those that counters find."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.chunked import equal_keys as module
from partition_ops.chunked.duplicate_search import MIX
from partition_ops.chunked.equal_keys import EqualKeys, find_equal_keys, hashing_of

KEYS = st.one_of(st.integers(0, 30), st.integers(2**40, 2**40 + 9), st.integers(0, 2**63 - 1))


def expected(types: list[list[int]]) -> EqualKeys:
    counts = [Counter(keys) for keys in types]
    repeated = [np.array(sorted(key for key, n in one.items() if n > 1), np.int64) for one in counts]
    distinct = Counter(key for one in counts for key in one)
    both = sum(1 for key in distinct if key % 2 == 0 and key + 1 in distinct)
    return EqualKeys(repeated, sum(distinct.values()) - len(distinct), both)


def check(types: list[list[np.ndarray]]) -> None:
    found = find_equal_keys(types)
    wanted = expected([[key for array in arrays for key in array.tolist()] for arrays in types])
    assert [one.tolist() for one in found.repeated] == [one.tolist() for one in wanted.repeated]
    assert found[1:] == wanted[1:]


@given(
    st.lists(st.lists(st.lists(KEYS, max_size=40), max_size=3), max_size=3),
    st.sampled_from([1, 4, 1 << 12]),
    st.sampled_from([1, 4, 31]),
    st.sampled_from([0, 3, 16]),
)
def test_keys_of_any_size(types: list[list[list[int]]], of_a_range: int, rest: int, most: int) -> None:
    with mock.patch.multiple(
        module, OF_A_RANGE=of_a_range, REST_BITS=rest, MOST_RANGE_BITS=most, MANY_RANGES=1
    ):
        check([[np.array(array, np.int64) for array in arrays] for arrays in types])


@pytest.mark.parametrize("most", [1, 50_000, 1 << 20, (1 << 48) - 1, 1 << 49, (1 << 63) - 1])
def test_many_keys(most: int) -> None:
    random = np.random.default_rng(0)
    check([[random.integers(0, most, size, endpoint=True) for size in (40_000, 0, 9)] for _ in range(2)])


@pytest.mark.parametrize("nodes", [90_000, 19_000_000, 111_000_000])
def test_keys_of_a_bucket_fill_all_ranges(nodes: int) -> None:
    """Buckets are chosen by the first bits of a hash, too."""
    pairs = np.random.default_rng(0).integers(0, nodes**2, 1 << 20, np.uint64)
    keys = pairs[(pairs * MIX) >> np.uint64(60) == 5] << np.uint64(1)
    hashing = hashing_of(int(keys.max()), len(keys), 1)
    counts = np.zeros(1 << (hashing.bits - hashing.rest), np.int64)
    module._count(keys, hashing, 1, counts)
    assert counts.max() < 2 * max(len(keys) / len(counts), 100)


def test_many_types_with_few_keys_have_few_ranges() -> None:
    hashing = hashing_of(1 << 45, 500, 500)
    assert 500 << (hashing.bits - hashing.rest) <= module.FEW_BOUNDS
    check([[np.array([1 << 45, 3, 1 << 45])] for _ in range(500)])


def test_many_equal_keys() -> None:
    check([[np.full(100_000, 7)], [np.full(3, 6), np.full(3, 7)]])


def test_an_edge_type_more_than_fit_the_smallest_stamps() -> None:
    check([[np.array([4, 5])] for _ in range(256)])


def test_no_types_and_no_keys() -> None:
    assert find_equal_keys([]) == ([], 0, 0)
    check([[], []])
