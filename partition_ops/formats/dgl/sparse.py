"""The sparse formats of DGL, made from sources and destinations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.formats.columns import Column
from partition_ops.formats.dgl.binary_format import Sparse
from partition_ops.system.compilation import compiled, unsigned

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


def sparse_format(name: str, src: Column, dst: Column, num_nodes: int) -> Sparse:
    """Return one of the formats; in compressed ones, the edges of a node are in the order of their IDs.

    Args:
        name: ``coo``, ``csr`` (by source) or ``csc`` (by destination).
        src: (edges,) int64 local IDs, by edge ID.
        dst: (edges,) int64 local IDs, by edge ID.
        num_nodes: Number of nodes.

    Returns:
        The format. Peak memory: none for ``coo``; 16 bytes an edge and 16 bytes a node for the others, while
        they are written.
    """
    if name == "coo":
        return Sparse(name, (src, dst))
    rows, others = (src, dst) if name == "csr" else (dst, src)
    begins = np.zeros(num_nodes + 1, np.int64)
    for block in rows.blocks():
        _count_rows(block, begins)
    np.cumsum(begins, out=begins)
    indices, edge_ids = np.empty(rows.shape, np.int64), np.empty(rows.shape, np.int64)
    positions, first = begins[:-1].copy(), 0
    for row_block, other_block in zip(rows.blocks(), others.blocks(), strict=True):
        _fill_rows(row_block, other_block, first, positions, indices, edge_ids)
        first += len(row_block)
    return Sparse(name, (Column.of(begins), Column.of(indices), Column.of(edge_ids)))


@compiled
def _count_rows(rows: Ids, begins: Counts) -> None:
    """Add each row's edges to ``begins[row + 1]``."""
    for i in range(len(rows)):
        begins[unsigned(rows[i] + 1)] += 1


@compiled
def _fill_rows(
    rows: Ids, others: Ids, first: int, positions: Counts, indices: Counts, edge_ids: Counts
) -> None:
    """Enter edges from the ID ``first`` on into the rows of a sparse matrix.

    Args:
        rows: (n,) the end that is the row.
        others: (n,) the other end.
        first: ID of the first edge.
        positions: (nodes,) int64, where the next edge of each row goes; moved on by this.
        indices: (edges,) int64, written.
        edge_ids: (edges,) int64, written.
    """
    for i in range(len(rows)):
        row = unsigned(rows[i])
        at = unsigned(positions[row])
        positions[row] += 1
        indices[at] = others[i]
        edge_ids[at] = first + i
