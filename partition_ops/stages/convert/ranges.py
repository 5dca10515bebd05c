"""Consecutive items in groups of about the same size, neither too small nor too many."""

from __future__ import annotations

MOST_GROUPS = 16
GROUP_BYTES = 32 << 20  # of the input; a task that has less takes longer to start than to work


def even_ranges(sizes: list[int], most: int = MOST_GROUPS) -> list[tuple[int, int]]:
    """Return half-open ranges of items: none empty, of about the same size.

    Args:
        sizes: Bytes of each item.
        most: Largest number of ranges. There are fewer if the items have less than `GROUP_BYTES` for each.
    """
    total = sum(sizes)
    count = min(most, max(total // GROUP_BYTES, 1), len(sizes))
    ends: list[int] = []
    before = 0
    for index, size in enumerate(sizes):
        before += size
        rest = len(sizes) - index - 1
        full = before * count >= total * (len(ends) + 1) or rest < count - len(ends)
        if (full and len(ends) < count - 1) or not rest:
            ends.append(index + 1)
    return list(zip([0, *ends], ends, strict=False))


def gather_ranges(input_bytes: int, num_parts: int, most: int | None = None) -> list[tuple[int, int]]:
    """Return half-open ranges of partitions, of which each process of a distributed job gathers one.

    Args:
        input_bytes: Size of all files of the graph.
        num_parts: Number of partitions.
        most: Largest number of ranges, or None for that of the partitions.
    """
    return even_ranges([max(input_bytes // num_parts, 1)] * num_parts, most or num_parts)
