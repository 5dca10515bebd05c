"""DGL graphs whose CSC or CSR lies in mapped files.

DGL takes the arrays of a graph as they are, without copying, if they come as CSC or CSR; with the other
formats ruled out it never makes more of them. Its sampling kernels then read from the mapped files what
they draw. What it cannot do without COO, or does by sorting the arrays in place, is done here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from partition_ops.chunked.id_converter import InvalidIdError, check_range
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.csc import are_neighbours
from partition_ops.train.mapped import ResidentLimit
from partition_ops.train.source import IdKind, OutputFiles
from partition_ops.train.structure import Edges, Sorted, Structure

dgl = import_dgl()

Direction = Literal["in", "out"]
FORMATS = {"in": "csc", "out": "csr"}


class DglGraphs:
    """The edges of an output, as graphs of DGL.

    Args:
        files: The output.
        ids: Which IDs the graphs have.
        resident: Watches over what is mapped.
    """

    def __init__(self, files: OutputFiles, ids: IdKind, resident: ResidentLimit) -> None:
        self._files = files
        self._ids = ids
        self._structure = Structure(files, ids, resident)
        self._sorted: dict[Direction, list[Sorted]] = {}
        self._graphs: dict[Direction, Any] = {}

    @property
    def num_edge_ids(self) -> list[int]:
        """Number of edge IDs by edge type ID; more than there are edges where validation dropped some."""
        return self._structure.num_ids

    def get(self, direction: Direction) -> Any:
        """The ``DGLGraph`` with the edges sorted by destination (``in``) or by source (``out``)."""
        if direction not in self._graphs:
            self._graphs[direction] = self._make(direction)
        return self._graphs[direction]

    def in_dgl_order(self, arrays: Sequence[Any]) -> list[Any]:
        """Tensors over arrays by edge type ID, in the order in which DGL has the edge types."""
        names = self._files.book.edges.names
        ordered = [arrays[names.id_of(etype)] for etype in self.get("in").canonical_etypes]
        return [None if array is None else _tensor(array) for array in ordered]

    def find_edges(self, eids: Any, etype: Any) -> tuple[Any, Any]:
        """Ends of some edges, (n,) int64 tensors."""
        names = self._files.book.edges.names
        edges = self._edges[names.id_of(etype)]
        ids = eids.numpy().astype(np.int64, copy=False)
        what = f"The {self._ids} ID of edge type {names.name_of(etype)!r}"
        check_range(ids, len(edges.src), what)
        src, dst = edges.src[ids], edges.dst[ids]
        if src.size and src.min() < 0:
            wrong = int(ids[np.flatnonzero(src < 0)[0]])
            raise InvalidIdError(
                f"{what} {wrong} is not there: in another partition than those that are open, coming from one"
                " where there is no halo, or dropped by validation"
            )
        return torch.from_numpy(src), torch.from_numpy(dst)

    def has_edges(self, src: Any, dst: Any, etype: Any) -> Any:
        """Whether each pair is joined, (n,) bool tensor."""
        edges = self._by("in")[self._files.book.edges.names.id_of(etype)]
        found = are_neighbours(edges.indptr, edges.indices, dst.numpy(), src.numpy())
        return torch.from_numpy(found)

    def degrees(self, direction: Direction, nodes: Any, etype: Any) -> Any:
        """Number of edges of some nodes, or of all, (n,) int64 tensor."""
        indptr = self._by(direction)[self._files.book.edges.names.id_of(etype)].indptr
        if nodes is None:
            return torch.from_numpy(np.diff(indptr))
        ids = torch.as_tensor(nodes).numpy()
        check_range(ids, len(indptr) - 1, "The node ID")
        return torch.from_numpy(indptr[ids + 1] - indptr[ids])

    @cached_property
    def _edges(self) -> list[Edges]:
        return self._structure.edges()

    def _by(self, direction: Direction) -> list[Sorted]:
        if direction not in self._sorted:
            self._sorted[direction] = self._structure.sort(direction, self._edges)
        return self._sorted[direction]

    def _make(self, direction: Direction) -> Any:
        book, form = self._files.book, FORMATS[direction]
        data = {
            etype: (form, tuple(_tensor(a) for a in (edges.indptr, edges.indices, edges.eids)))
            for etype, edges in zip(book.canonical_etypes, self._by(direction), strict=True)
        }
        nodes = {name: book.nodes.count(name) for name in book.ntypes}
        return dgl.heterograph(data, nodes, idtype=torch.int64).formats(form)


def _tensor(array: Any) -> Any:
    """A tensor over a mapped array, for reading."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
