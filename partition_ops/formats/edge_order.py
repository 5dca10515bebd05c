"""Columns of edges in the order of a sparse matrix, CSC or CSR: by one end, and by edge ID for each node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.formats.columns import Array, Column, row_blocks
from partition_ops.system.compilation import compiled, unsigned

Counts = npt.NDArray[np.int64]
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class EdgeOrder:
    """The order of edges by destination, or by source.

    Args:
        ends: (edges,) integers, the ends to order by.
        num_nodes: Number of nodes.

    Peak memory: 16 bytes a node.
    """

    def __init__(self, ends: Column, num_nodes: int) -> None:
        self._ends = ends
        self._num_nodes = num_nodes

    @cached_property
    def indptr(self) -> Counts:
        """(nodes + 1,) int64, where the edges of each node begin."""
        begins = np.zeros(self._num_nodes + 1, np.int64)
        for block in self._ends.blocks():
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
            for ends, values in _in_step(self._ends.blocks(), column.blocks()):
                _place(ends, values.astype(made, copy=False).view(out.dtype), places, out)
            for begin, end in row_blocks(len(arranged), arranged.nbytes):
                yield arranged[begin:end]

        return Column(made, column.shape, blocks)


def _in_step(first: Iterator[Array], second: Iterator[Array]) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of two columns of the same length in blocks of the same length; blocks may be empty."""
    others = np.empty(0)
    for ones in first:
        while len(ones):
            while not len(others):
                others = next(second)
            count = min(len(ones), len(others))
            yield ones[:count], others[:count]
            ones, others = ones[count:], others[count:]


@compiled
def _count(ends: Counts, begins: Counts) -> None:
    """Add the edges of each node to ``begins[node + 1]``."""
    for i in range(len(ends)):
        begins[unsigned(ends[i] + 1)] += 1


@compiled
def _place(ends: Counts, values: npt.NDArray[Any], places: Counts, out: npt.NDArray[Any]) -> None:
    """Enter values of edges into the rows of their nodes.

    Args:
        ends: (n,) int64 nodes.
        values: (n,) the values.
        places: (nodes,) int64, where the next value of each node goes; moved on by this.
        out: (edges,) of the dtype of ``values``, written.
    """
    for i in range(len(ends)):
        node = unsigned(ends[i])
        out[unsigned(places[node])] = values[i]
        places[node] += 1
