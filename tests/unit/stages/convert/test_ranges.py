"""Groups of chunks and of partitions: how many, and how even."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.stages.convert.ranges import GROUP_BYTES, MOST_GROUPS, even_ranges, gather_ranges


@given(st.lists(st.integers(0, 3 * GROUP_BYTES), max_size=60), st.integers(1, 20))
def test_they_cover_all_items_once(sizes: list[int], most: int) -> None:
    ranges = even_ranges(sizes, most)
    assert [place for begin, end in ranges for place in range(begin, end)] == [*range(len(sizes))]
    assert all(begin < end for begin, end in ranges)
    assert len(ranges) <= max(1, min(most, sum(sizes) // GROUP_BYTES))


def test_small_inputs_share_one_group() -> None:
    assert even_ranges([]) == []
    assert even_ranges([0, 0, 0]) == [(0, 3)]
    assert even_ranges([1, 2, 3]) == [(0, 3)]
    assert len(even_ranges([GROUP_BYTES] * 100)) == MOST_GROUPS


@pytest.mark.parametrize(
    ("input_bytes", "num_parts", "tasks"),
    [
        (0, 4, [(0, 4)]),
        (GROUP_BYTES, 4, [(0, 4)]),
        (2 * GROUP_BYTES, 4, [(0, 2), (2, 4)]),
        (2 * GROUP_BYTES + 1, 1, [(0, 1)]),
        (4 * GROUP_BYTES, 4, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (1 << 40, 4, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ],
)
def test_partitions_share_a_task_if_the_graph_is_small(
    input_bytes: int, num_parts: int, tasks: list[tuple[int, int]]
) -> None:
    assert gather_ranges(input_bytes, num_parts) == tasks


@given(st.integers(0, 200 * GROUP_BYTES), st.integers(1, 1024))
def test_tasks_of_gathers_are_even(input_bytes: int, num_parts: int) -> None:
    ranges = gather_ranges(input_bytes, num_parts)
    lengths = {end - begin for begin, end in ranges}
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert max(lengths) - min(lengths) <= 1
