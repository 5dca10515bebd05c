"""How many partitions a process gathers at a time."""

from __future__ import annotations

import pytest

from partition_ops.stages.convert.cost import most_gathers

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cores", "task_mib", "edge_mib", "expected"),
    [
        (2, 190, 56, 4),  # twice the cores, in 1 GiB
        (2, 400, 56, 2),  # 1 GiB has room for two
        (2, 2000, 500, 2),  # what memory allows is asked elsewhere
        (2, 75, 1, 2),  # small partitions are bound by the interpreter's lock
        (8, 100, 56, 10),
        (1, 0, 56, 2),
    ],
)
def test_large_partitions_overlap_within_a_gibibyte(
    cores: int, task_mib: int, edge_mib: int, expected: int
) -> None:
    assert most_gathers(cores, task_mib * MIB, edge_mib * MIB) == expected
