"""Degrees, which count their lower bits in an array of their own."""

import numpy as np
import pytest

from partition_ops.stages.validate.connectivity import CompactDegrees, Connectivity, full_degrees


@pytest.mark.parametrize("edges", [10_000, 2**40], ids=["narrow", "wide"])
def test_degrees_of_more_than_8_bits_are_counted(edges: int) -> None:
    dst = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 4], [255, 256, 257, 1000]))
    connectivity = Connectivity(8, edges)
    for factor in (1, 2):  # edges that are added after degrees were asked for
        connectivity.add(np.zeros_like(dst), dst, 0, 3)
        found = factor * np.array([0, 0, 0, 255, 256, 257, 0, 1000])
        ins, outs = connectivity.in_degrees, connectivity.out_degrees
        assert full_degrees(*ins.of(slice(0, 8))).tolist() == found.tolist()
        assert full_degrees(*outs.of(slice(0, 8))).tolist() == [factor * len(dst), *[0] * 7]


def test_large_degrees_are_counted_in_any_order_and_range() -> None:
    random = np.random.default_rng(1)
    ids = np.concatenate(
        [random.integers(0, 50, 9000), np.full(70_000, 7), np.full(512, 49), np.full(255, 3)]
    )
    expected = np.bincount(ids + 10, minlength=64)
    parts = []
    for order in (ids, ids[::-1], random.permutation(ids)):
        degrees = CompactDegrees(64)
        for block in np.array_split(order, 5):
            degrees.add(block, 10)
        assert full_degrees(*degrees.of(slice(0, 64))).tolist() == expected.tolist()
        degrees.add(np.array([0]), 0)  # after they were read
        expected[0] = 1
        found = [degrees.of(slice(begin, begin + 16)) for begin in range(0, 64, 16)]
        assert np.concatenate([full_degrees(*one) for one in found]).tolist() == expected.tolist()
        expected[0] = 0
        parts.append([[array.tolist() for array in one] for one in found])
    assert parts[0] == parts[1] == parts[2]  # so that a repeated task writes the same bytes
