"""DGL graphs over mapped CSC or CSR arrays, and what DGL cannot do on them.

DGL takes the arrays of a graph as they are, without copying, if they come as CSC or CSR; if the other formats
are ruled out, it never makes them. Its sampling kernels then read what they draw from the mapped files. This
module does what DGL needs COO for, or does by sorting the arrays in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.id_converter import InvalidIdError, check_range
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.output_files import IdKind
from partition_ops.train.sorted_edges import Direction, EdgeFiles, SortedEdges
from partition_ops.train.tensors import readonly_tensor

dgl = import_dgl()

SPARSE_FORMATS = {"in": "csc", "out": "csr"}
TRIALS = 3  # to draw pairs without an edge, as in dgl 1.1.3


class DglGraphs:
    """The edges of an output as graphs of DGL.

    Args:
        book: The partition book.
        edges: The edges.
        ids: Which IDs the graphs have.
    """

    def __init__(self, book: PartitionBook, edges: EdgeFiles, ids: IdKind) -> None:
        self._book = book
        self._edges = edges
        self._ids = ids
        self._graphs: dict[Direction, Any] = {}

    def get(self, direction: Direction) -> Any:
        """Return the ``DGLGraph`` with the edges sorted by destination (``in``) or by source (``out``)."""
        if direction not in self._graphs:
            book, sparse = self._book, SPARSE_FORMATS[direction]
            data = {etype: (sparse, self.tensors(direction, etype)) for etype in book.canonical_etypes}
            nodes = {name: book.nodes.count(name) for name in book.ntypes}
            made = dgl.heterograph(data, nodes, idtype=torch.int64).formats(sparse)
            self._graphs[direction] = made
        return self._graphs[direction]

    def in_dgl_order(self, arrays: Sequence[Any]) -> list[Any]:
        """Return tensors over arrays by edge type ID, in the order in which DGL has the edge types."""
        names = self._book.edges.names
        ordered = [arrays[names.id_of(etype)] for etype in self.get("in").canonical_etypes]
        return [None if array is None else readonly_tensor(array) for array in ordered]

    def find_edges(self, eids: Any, etype: Any) -> tuple[Any, Any]:
        """Return the ends of some edges, (n,) int64 tensors.

        Raises:
            InvalidIdError: An edge does not exist, or is not in the open partitions.
        """
        names = self._book.edges.names
        edges = self._edges.by_id[names.id_of(etype)]
        ids = eids.numpy().astype(np.int64, copy=False)
        what = f"The {self._ids} ID of edge type {names.name_of(etype)!r}"
        check_range(ids, len(edges.src), what)
        src, dst = edges.src[ids], edges.dst[ids]
        if src.size and src.min() < 0:
            wrong = int(ids[np.flatnonzero(src < 0)[0]])
            raise InvalidIdError(
                f"{what} {wrong} is not there: its partition is not open, its source is in another partition"
                " and there is no halo, or validation dropped it"
            )
        return torch.from_numpy(src), torch.from_numpy(dst)

    def has_edges(self, src: Any, dst: Any, etype: Any) -> Any:
        """Return whether an edge joins each pair, (n,) bool tensor."""
        return torch.from_numpy(self._by("in", etype).contain(dst.numpy(), src.numpy()))

    def degrees(self, direction: Direction, nodes: Any, etype: Any) -> Any:
        """Return the number of edges of some nodes, or of all, (n,) int64 tensor."""
        indptr = self._by(direction, etype).indptr
        if nodes is None:
            return torch.from_numpy(np.diff(indptr))
        ids = torch.as_tensor(nodes).numpy()
        check_range(ids, len(indptr) - 1, "The node ID")
        return torch.from_numpy(indptr[ids + 1] - indptr[ids])

    def tensors(self, direction: Direction, etype: Any) -> tuple[Any, Any, Any]:
        """Return read-only tensors over the arrays of `SortedEdges` of a type."""
        edges = self._by(direction, etype)
        return tuple(map(readonly_tensor, (edges.indptr, edges.indices, edges.eids)))  # type: ignore[return-value]

    def pairs_without_edge(
        self, count: int, etype: tuple[str, str, str], *, loops: bool, repeat: bool, redundancy: float | None
    ) -> tuple[Any, Any]:
        """Draw pairs of nodes uniformly, and keep those that no edge joins.

        DGL's kernel for this sorts the graph in place, which mapped files do not allow.

        Args:
            count: Number of pairs to draw.
            etype: Edge type.
            loops: Keep pairs of a node with itself.
            repeat: Keep repeated pairs.
            redundancy: Share of additional pairs to draw; derived from the density if None.

        Returns:
            (n,) int64 sources and destinations, type-wise, n at most ``count``. Peak memory: some arrays of
            ``count`` entries.
        """
        nodes = self._book.nodes
        sources, destinations = nodes.count(etype[0]), nodes.count(etype[2])
        pairs = torch.empty((2, 0), dtype=torch.int64)
        if not sources or not destinations:
            return pairs[0], pairs[1]
        density = min(self.get("in").num_edges(etype) / (sources * destinations), 0.9)
        more = 1.3 / (1 - density) if redundancy is None else 1 + redundancy
        for _ in range(TRIALS):
            drawn = int((count - pairs.shape[1]) * more) + 1
            new = torch.stack([torch.randint(sources, (drawn,)), torch.randint(destinations, (drawn,))])
            wrong = self.has_edges(new[0], new[1], etype)
            if not loops and etype[0] == etype[2]:
                wrong |= new[0] == new[1]
            pairs = torch.cat([pairs, new[:, ~wrong]], dim=1)
            if not repeat:
                pairs = _first_of_each(pairs, destinations)
            if pairs.shape[1] >= count:
                break
        return pairs[0, :count], pairs[1, :count]

    def _by(self, direction: Direction, etype: Any) -> SortedEdges:
        return self._edges.sorted(direction)[self._book.edges.names.id_of(etype)]


def _first_of_each(pairs: Any, destinations: int) -> Any:
    """Return the distinct pairs, in the order in which they were drawn."""
    keys = pairs[0] * destinations + pairs[1]
    _, inverse = torch.unique(keys, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1 if len(inverse) else 0,), len(keys))
    first = first.scatter_reduce(0, inverse, torch.arange(len(keys)), "amin")
    return pairs[:, first.sort().values]
