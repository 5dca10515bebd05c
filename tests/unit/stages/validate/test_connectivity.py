"""Degrees, which count their lower bits in an array of their own."""

import numpy as np
import pytest

from partition_ops.stages.validate.connectivity import Connectivity


@pytest.mark.parametrize("edges", [10_000, 2**40], ids=["narrow", "wide"])
def test_degrees_of_more_than_8_bits_are_counted(edges: int) -> None:
    dst = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 4], [255, 256, 257, 1000]))
    connectivity = Connectivity(8, edges)
    for factor in (1, 2):  # edges that are added after degrees were asked for
        connectivity.add(np.zeros_like(dst), dst, 0, 3)
        found = factor * np.array([0, 0, 0, 255, 256, 257, 0, 1000])
        assert connectivity.in_degrees.tolist() == found.tolist()
        assert connectivity.out_degrees.tolist() == [factor * len(dst), *[0] * 7]
