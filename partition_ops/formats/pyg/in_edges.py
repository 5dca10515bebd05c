"""The edges of a partition in PyG's order: by type, destination and source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from partition_ops.artifacts.new_ids import id_dtype
from partition_ops.formats.columns import Column, row_blocks
from partition_ops.formats.neutral_partition import Partition

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TypedEdges:
    """The edges of one type that a partition owns, sorted."""

    src: Ids  # (edges,) int32 or int64, local IDs of the sources
    dst: Ids  # (edges,) int32 or int64, local IDs of the destinations, ascending
    orig: Counts  # (edges,) int64, type-wise original IDs of the edges
    order: Ids  # (edges,) int32 or int64, positions of the edges in the order of their new IDs


class InEdges:
    """The edges that a partition owns, one type at a time.

    Args:
        partition: The partition; it has all in-edges of its inner nodes.

    Memory: 16 bytes a node of the partition, 20 bytes an edge of the largest type, and 28 bytes more for each
    of them while they are sorted (beyond 2^31 nodes or edges 36 and 40).
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        groups = partition.group("edge_orig_ids")
        self.counts = {name: groups[name].shape[0] for name in partition.edge_types}
        self._current: tuple[str, TypedEdges] | None = None
        self._blocks: Iterator[tuple[Ids, Ids, Ids]] = iter(())
        self._next = len(self.counts)
        self._rest: tuple[Ids, Ids, Ids] | None = None

    @cached_property
    def _orig_nodes(self) -> Counts:
        """(nodes,) int64, type-wise original IDs by local ID."""
        return _whole(self._partition.columns["nodes/orig_id"])

    @cached_property
    def _ranks(self) -> Ids:
        """(nodes,) int32 or int64, positions of the local nodes in the order of the new IDs."""
        dtype = id_dtype(self._partition.num_nodes)
        inner = self._partition.num_inner
        halo = _whole(self._partition.columns["nodes/new_id"])[inner:]
        first = int(next(self._partition.columns["nodes/new_id"].blocks())[0]) if inner else 0
        before = int(np.searchsorted(halo, first))
        places = np.arange(len(halo), dtype=dtype)
        places[before:] += inner
        return np.concatenate([np.arange(before, before + inner, dtype=dtype), places])

    def row(self, edge_type: str) -> Column:
        """Return type-wise original IDs of the sources."""
        return self._column(edge_type, lambda edges, at: self._orig_nodes[edges.src[at]])

    def col(self, edge_type: str) -> Column:
        """Return type-wise original IDs of the destinations."""
        return self._column(edge_type, lambda edges, at: self._orig_nodes[edges.dst[at]])

    def orig(self, edge_type: str, offset: int = 0) -> Column:
        """Return type-wise original IDs of the edges, plus ``offset``."""
        return self._column(edge_type, lambda edges, at: edges.orig[at] + offset)

    def order(self, edge_type: str) -> Ids:
        """Return the positions of the edges in the order of their new IDs, (edges,) integers."""
        return self._get(edge_type).order

    def _column(self, edge_type: str, make: Callable[[TypedEdges, slice], Ids]) -> Column:
        def blocks() -> Iterator[Ids]:
            count = self.counts[edge_type]
            edges = self._get(edge_type) if count else None
            for begin, end in row_blocks(count, 8 * count):
                if edges is not None:
                    yield make(edges, slice(begin, end))

        return Column(np.dtype(np.int64), (self.counts[edge_type],), blocks)

    def _get(self, edge_type: str) -> TypedEdges:
        """Return the edges of a type. The types are read in their order; an earlier one starts again."""
        if self._current is None or self._current[0] != edge_type:
            self._current = None  # before the next one takes memory
            wanted = self._partition.edge_types.index(edge_type)
            if wanted < self._next:
                columns = (self._partition.columns[f"edges/{name}"] for name in ("src", "dst", "orig_id"))
                self._blocks = zip(*(column.blocks() for column in columns), strict=True)
                self._next, self._rest = 0, None
            for name in self._partition.edge_types[self._next : wanted]:
                for _ in self._read(self.counts[name]):
                    pass
            self._next = wanted + 1
            self._current = edge_type, self._sorted(self.counts[edge_type])
        return self._current[1]

    def _read(self, count: int) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Yield the next edges: sources, destinations, original IDs."""
        while count:
            block = self._rest or next(self._blocks)
            here = min(count, len(block[0]))
            yield block[0][:here], block[1][:here], block[2][:here]
            rest = block[0][here:], block[1][here:], block[2][here:]
            self._rest = rest if len(rest[0]) else None
            count -= here

    def _sorted(self, count: int) -> TypedEdges:
        local = id_dtype(self._partition.num_nodes)
        src, dst, orig = np.empty(count, local), np.empty(count, local), np.empty(count, np.int64)
        begin = 0
        for block in self._read(count):
            end = begin + len(block[0])
            src[begin:end], dst[begin:end], orig[begin:end] = block
            begin = end
        by_src = _order(self._ranks[src], np.arange(count, dtype=id_dtype(count)), self._partition.num_nodes)
        order = _order(dst, by_src, self._partition.num_inner)
        del by_src
        return TypedEdges(src[order], dst[order], orig[order], order)


def _whole(column: Column) -> Counts:
    return np.concatenate([np.empty(0, column.dtype), *column.blocks()])


@njit(cache=True, nogil=True)
def _order(keys: Ids, items: Ids, num_keys: int) -> Ids:
    """Sort items by key, by counting: items with equal keys keep their order.

    Args:
        keys: (n,) the key of each item.
        items: (n,) the items in the order so far.
        num_keys: The number of possible keys.
    """
    positions = np.zeros(num_keys + 1, np.int64)
    for key in keys:
        positions[key + 1] += 1
    for i in range(num_keys):
        positions[i + 1] += positions[i]
    found = np.empty_like(items)
    for item in items:
        key = keys[item]
        found[positions[key]] = item
        positions[key] += 1
    return found
