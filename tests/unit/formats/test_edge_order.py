"""Columns of edges in the order of CSC and CSR."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from partition_ops.formats.columns import Array, Column
from partition_ops.formats.edge_order import EdgeOrder

NODES = 5


def in_blocks(values: Array, cuts: list[int]) -> Column:
    """A column in blocks that end at some rows; equal ends make empty blocks."""
    return Column(values.dtype, values.shape, lambda: iter(np.split(values, sorted(cuts))))


@given(
    st.lists(st.integers(0, NODES - 1), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.lists(st.integers(0, 12), max_size=4),
)
@example([1, 0], [2, 2], [1])  # an empty block after the last row
def test_values_are_in_the_order_of_the_ends(ends: list[int], cuts: list[int], others: list[int]) -> None:
    by, values = np.array(ends, np.int64), np.arange(len(ends), dtype=np.int64)
    order = EdgeOrder(in_blocks(by, [min(cut, len(ends)) for cut in cuts]), NODES)
    arranged = order.arrange(in_blocks(values, [min(cut, len(ends)) for cut in others]), np.int32)
    found = np.concatenate([np.empty(0, np.int32), *arranged.blocks()])
    assert found.tolist() == np.argsort(by, kind="stable").tolist()
    assert order.indptr.tolist() == [int((by < node).sum()) for node in range(NODES + 1)]
