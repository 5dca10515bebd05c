"""Columns of edges in the order of a CSC matrix: by destination, and by edge ID for each destination."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from partition_ops.formats.columns import Array, Column, row_blocks

Counts = npt.NDArray[np.int64]
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class CscOrder:
    """The order of edges by destination.

    Args:
        dst: (edges,) integers, the destinations.
        num_nodes: Number of nodes.

    Peak memory: 16 bytes a node.
    """

    def __init__(self, dst: Column, num_nodes: int) -> None:
        self._dst = dst
        self._num_nodes = num_nodes

    @cached_property
    def indptr(self) -> Counts:
        """(nodes + 1,) int64, where the edges of each destination begin."""
        begins = np.zeros(self._num_nodes + 1, np.int64)
        for block in self._dst.blocks():
            _count(block, begins)
        np.cumsum(begins, out=begins)
        return begins

    def arrange(self, column: Column, dtype: Any) -> Column:
        """Return a column of the edges in this order, converted to an integer dtype.

        Its blocks can be called several times. Peak memory: the column, once, and 8 bytes a node.
        """
        made = np.dtype(dtype)

        def blocks() -> Iterator[Array]:
            arranged = np.empty(column.shape, made)
            places, out = self.indptr[:-1].copy(), arranged.view(UNSIGNED[made.itemsize])
            for dst, values in _in_step(self._dst.blocks(), column.blocks()):
                _place(dst, values.astype(made, copy=False).view(out.dtype), places, out)
            for begin, end in row_blocks(len(arranged), arranged.nbytes):
                yield arranged[begin:end]

        return Column(made, column.shape, blocks)


def _in_step(first: Iterator[Array], second: Iterator[Array]) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of two columns in blocks of the same length."""
    ones, others = np.empty(0), np.empty(0)
    while True:
        if not len(ones):
            found = next(first, None)
            if found is None:
                return
            ones = found
        if not len(others):
            others = next(second)
        count = min(len(ones), len(others))
        if count:
            yield ones[:count], others[:count]
        ones, others = ones[count:], others[count:]


@njit(cache=True, nogil=True)
def _count(dst: Counts, begins: Counts) -> None:
    """Add the edges of each destination to ``begins[destination + 1]``."""
    for i in range(len(dst)):
        begins[dst[i] + 1] += 1


@njit(cache=True, nogil=True)
def _place(dst: Counts, values: npt.NDArray[Any], places: Counts, out: npt.NDArray[Any]) -> None:
    """Enter values of edges into the rows of their destinations.

    Args:
        dst: (n,) int64 destinations.
        values: (n,) the values.
        places: (nodes,) int64, where the next value of each destination goes; moved on by this.
        out: (edges,) of the dtype of ``values``, written.
    """
    for i in range(len(dst)):
        out[places[dst[i]]] = values[i]
        places[dst[i]] += 1
