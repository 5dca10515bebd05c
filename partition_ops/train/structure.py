"""The edges of an output, sorted by their ends, as mapped arrays in the cache.

DGL's partitions hold their edges as COO by edge ID. To sample, edges are needed by their destination: CSC.
That is made once, partition by partition, and mapped from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.chunked.table_files import parquet_file
from partition_ops.train.csc import count, fill
from partition_ops.train.mapped import NPY_HEADER, MappedFile, ResidentLimit, create_npy, map_npy
from partition_ops.train.part_graph import BLOCK, PartGraph, part_graph
from partition_ops.train.source import MISSING, IdKind, Ids, OutputFiles


@dataclass(frozen=True)
class Edges:
    """The edges of one type by edge ID.

    Attributes:
        src: (IDs,) int64, type-wise IDs of the sources; -1 where there is no edge of that ID.
        dst: (IDs,) int64, the same of the destinations.
        num_edges: Number of edges that are there.
    """

    src: Ids
    dst: Ids
    num_edges: int


@dataclass(frozen=True)
class Sorted:
    """The edges of one type by the destination (CSC) or by the source (CSR).

    Attributes:
        indptr: (nodes + 1,) int64, where the edges of each node begin.
        indices: (edges,) int64, type-wise IDs of their other ends.
        eids: (edges,) int64, type-wise edge IDs, ascending for each node.
    """

    indptr: Ids
    indices: Ids
    eids: Ids


class Structure:
    """Builds and maps the edges of an output.

    Args:
        files: The output.
        ids: Which IDs the edges and their ends have.
        resident: Watches over what is mapped.
    """

    def __init__(self, files: OutputFiles, ids: IdKind, resident: ResidentLimit) -> None:
        self._files = files
        self._ids = ids
        self._resident = resident
        self.num_ids = [self._count_ids(t) for t in range(len(files.book.canonical_etypes))]

    def edges(self) -> list[Edges]:
        """The edges of each type by edge ID, mapped.

        Peak memory while they are made: 16 bytes a node of a partition and 64 MiB. Disk: 16 bytes an edge,
        and while they are made, where the partitions have no COO, the largest ``graph.dgl``.
        """
        keys = [layout.partition_file(part, "graph.dgl") for part in self._files.parts]
        size = self._files.scratch_bytes(keys) + self._unsorting_bytes()
        size += sum(16 * n + 2 * NPY_HEADER for n in self.num_ids)
        folder = self._entry("edges", keys, size, self._make_edges)
        present = self._num_present()
        return [
            Edges(self._map(folder / f"{t}-src.npy"), self._map(folder / f"{t}-dst.npy"), present[t])
            for t in range(len(self.num_ids))
        ]

    def sort(self, direction: str, edges: list[Edges]) -> list[Sorted]:
        """The edges of each type by their destinations (``in``) or sources (``out``), mapped.

        Peak memory while they are made: 16 bytes a node of the largest type and 64 MiB, besides mapped
        files. Disk: 16 bytes an edge and 8 bytes a node for each edge type.
        """
        keys = [layout.partition_file(part, "graph.dgl") for part in self._files.parts]
        size = sum(
            16 * e.num_edges + 8 * (self._num_nodes(t, direction) + 1) + 3 * NPY_HEADER
            for t, e in enumerate(edges)
        )

        def make(folder: Path) -> None:
            for type_id, e in enumerate(edges):
                self._sort(folder, type_id, direction, e)

        folder = self._entry(f"sorted-{direction}", keys, size, make)
        names = ("indptr", "indices", "eids")
        return [Sorted(*(self._map(folder / f"{t}-{name}.npy") for name in names)) for t in range(len(edges))]

    def _entry(self, kind: str, keys: list[str], size: int, make: Any) -> Path:
        config = layout.partition_config(self._files.book.graph_name)
        name = self._files.name(kind, [config, *keys], self._ids, self._files.parts)
        return self._files.hold(self._files.cache.get(name, size, make))

    def _map(self, path: Path) -> Ids:
        return map_npy(path, self._resident)

    def _count_ids(self, type_id: int) -> int:
        """Number of edge IDs: of the output, or of the input with those edges that validation dropped."""
        book = self._files.book
        dropped = layout.dropped_edge_map(book.edges.names.names[type_id])
        if self._ids == "new" or not self._files.output.exists(dropped):
            return book.edges.count(type_id)
        path = self._files.output.local_copy(dropped)
        with parquet_file(path, self._files.output.uri_of(dropped)) as file:
            return book.edges.count(type_id) + int(file.metadata.num_rows)

    def _unsorting_bytes(self) -> int:
        """What `part_graph` takes, at most: a graph file has 16 bytes an edge in every format."""
        if "coo" in self._files.formats:
            return 0
        return max(self._files.size(layout.partition_file(p, "graph.dgl")) for p in self._files.parts)

    def _num_present(self) -> list[int]:
        """Number of edges of each type in the graphs of the open partitions."""
        ranges = self._files.book.edges
        parts = list(self._files.parts)
        owned = (ranges.ends - ranges.starts)[parts].sum(axis=0)
        if self._files.num_hops == 0:  # those from other partitions are owned, and in no graph
            (part,) = parts
            cut = self._files.output.read_json(layout.partition_stats(part))["cut_edges"]
            owned = owned - [cut[name] for name in ranges.names.names]
        return [int(n) for n in owned]

    def _num_nodes(self, type_id: int, direction: str) -> int:
        src, _, dst = self._files.book.canonical_etypes[type_id]
        return self._files.book.nodes.count(dst if direction == "in" else src)

    def _make_edges(self, folder: Path) -> None:
        present = self._num_present()
        targets = []
        for type_id, number in enumerate(self.num_ids):
            pair = [create_npy(folder / f"{type_id}-{end}.npy", number) for end in ("src", "dst")]
            if present[type_id] < number:
                for array in pair:
                    array[:] = MISSING
            targets.append(pair)
        for part in self._files.parts:
            with self._graph(part, folder) as graph:
                for type_id, (src, dst) in enumerate(targets):
                    for block in graph.blocks(self._files.book, part, type_id, self._ids):
                        src[block.eids], dst[block.eids] = block.src, block.dst

    @contextmanager
    def _graph(self, part: int, folder: Path) -> Iterator[PartGraph]:
        """The graph of a partition; what it takes besides its file is in ``folder`` meanwhile."""
        key = layout.partition_file(part, "graph.dgl")
        with self._files.passing(key, folder) as path:
            places = self._files.graph_places(key, path)
            with part_graph(MappedFile(path), places, folder) as graph:
                yield graph

    def _sort(self, folder: Path, type_id: int, direction: str, edges: Edges) -> None:
        keys, others = (edges.dst, edges.src) if direction == "in" else (edges.src, edges.dst)
        indptr = np.zeros(self._num_nodes(type_id, direction) + 1, np.int64)
        for begin in range(0, len(keys), BLOCK):
            count(keys[begin : begin + BLOCK], indptr[1:])
            self._resident.check()
        np.cumsum(indptr, out=indptr)
        np.save(folder / f"{type_id}-indptr.npy", indptr)
        indices, eids = (
            create_npy(folder / f"{type_id}-{name}.npy", edges.num_edges) for name in ("indices", "eids")
        )
        for begin in range(0, len(keys), BLOCK):
            block = slice(begin, begin + BLOCK)
            fill(keys[block], others[block], begin, indptr, indices, eids)
            self._resident.check()
