"""The edges of an output by edge ID, and sorted by their ends (CSC, CSR), as mapped arrays in the cache.

They are made once, partition by partition, from the stored columns of the partitions, and mapped afterwards.
numba compiles the loops on first use, and keeps them on disk beside this file, or in the user's cache folder
if that one cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_stats
from partition_ops.chunked.table_files import parquet_file
from partition_ops.formats.columns import Array, StoredArray
from partition_ops.system.compilation import compiled, compiled_with_arrays
from partition_ops.train.mapped_files import NPY_HEADER, ResidentLimit, create_npy, map_npy
from partition_ops.train.output_files import MISSING, IdKind, Ids, OutputFiles

BLOCK = 1 << 20  # edges that are read together
SPARSE_FORMATS = (
    "csr",
    "csc",
)  # groups of columns that stand for edges/src and edges/dst; see `Format.arrays`
SCRATCH = ("edges-src", "edges-dst")


@dataclass(frozen=True)
class Edges:
    """The edges of one type by edge ID.

    Attributes:
        src: (IDs,) int64, type-wise IDs of the sources; -1 if there is no edge with that ID.
        dst: (IDs,) int64, type-wise IDs of the destinations; also -1.
        num_edges: Number of edges.
    """

    src: Ids
    dst: Ids
    num_edges: int


@dataclass(frozen=True)
class SortedEdges:
    """The edges of one type by destination (CSC) or by source (CSR).

    Attributes:
        indptr: (nodes + 1,) int64, where the edges of each node begin.
        indices: (edges,) int64, type-wise IDs of their other ends.
        eids: (edges,) int64, type-wise edge IDs, ascending for each node.
    """

    indptr: Ids
    indices: Ids
    eids: Ids

    def contain(self, nodes: Ids, others: Ids) -> npt.NDArray[np.bool_]:
        """Return whether an edge joins each pair, (n,) bool.

        Args:
            nodes: (n,) int64, the ends that the edges are sorted by.
            others: (n,) int64, the other ends.
        """
        found: npt.NDArray[np.bool_] = _contain(self.indptr, self.indices, nodes, others)
        return found


class EdgeFiles:
    """Makes and maps the edges of an output.

    Args:
        files: The output.
        ids: Which IDs the edges and their ends have.
        resident: Limits the resident pages.

    Attributes:
        num_ids: Number of edge IDs by edge type ID: with original IDs, edges that validation dropped count.
    """

    def __init__(self, files: OutputFiles, ids: IdKind, resident: ResidentLimit) -> None:
        self._files = files
        self._ids = ids
        self._resident = resident
        self.num_ids = [self._count_ids(t) for t in range(len(files.book.canonical_etypes))]

    def edges(self) -> list[Edges]:
        """Return the edges of each type by edge ID, mapped.

        Peak memory while they are made: 16 bytes a node of a partition and 64 MiB. Disk: 16 bytes an edge.
        While they are made, also the files of the graph of the largest partition if the output is on S3, and
        16 bytes an edge of it if the partitions store no COO.
        """
        folder = self._make_once("edges", self._bytes_of_edges, self._make_edges)
        present = self._num_present()
        return [
            Edges(self._map(folder / f"{t}-src.npy"), self._map(folder / f"{t}-dst.npy"), present[t])
            for t in range(len(self.num_ids))
        ]

    def sort(self, direction: str, edges: list[Edges]) -> list[SortedEdges]:
        """Return the edges of each type by destination (``in``) or by source (``out``), mapped.

        Peak memory while they are made: 16 bytes a node of the largest type and 64 MiB, in addition to mapped
        files. Disk: 16 bytes an edge and 8 bytes a node for each edge type.
        """

        def num_bytes() -> int:
            nodes = [self._num_nodes(t, direction) + 1 for t in range(len(edges))]
            return sum(16 * e.num_edges + 8 * n + 3 * NPY_HEADER for e, n in zip(edges, nodes, strict=True))

        def make(folder: Path) -> None:
            for type_id, e in enumerate(edges):
                self._sort(folder, type_id, direction, e)

        folder = self._make_once(f"sorted-{direction}", num_bytes, make)
        names = ("indptr", "indices", "eids")
        return [
            SortedEdges(*(self._map(folder / f"{t}-{name}.npy") for name in names)) for t in range(len(edges))
        ]

    def _make_once(self, kind: str, num_bytes: Callable[[], int], make: Callable[[Path], None]) -> Path:
        return self._files.make_once(kind, self._files.parts, (self._ids, self._files.parts), num_bytes, make)

    def _map(self, path: Path) -> Ids:
        return map_npy(path, self._resident)

    def _count_ids(self, type_id: int) -> int:
        """Return the number of edge IDs of a type, in the output or in the input."""
        book = self._files.book
        dropped = layout.dropped_edge_map(book.edges.names.names[type_id])
        if self._ids == "new" or not self._files.output.exists(dropped):
            return book.edges.count(type_id)
        path = self._files.output.local_copy(dropped)
        with parquet_file(path, self._files.output.uri_of(dropped)) as file:
            return book.edges.count(type_id) + int(file.metadata.num_rows)

    def _bytes_of_edges(self) -> int:
        stored = [_stored_edges(self._files, part, self._ids) for part in self._files.parts]
        size = self._files.scratch_bytes(stored) + sum(16 * n + 2 * NPY_HEADER for n in self.num_ids)
        return size + max(0 if "edges/src" in s else 16 * s["edges/new_id"].shape[0] for s in stored)

    def _num_present(self) -> list[int]:
        """Return the number of edges of each type in the graphs of the open partitions."""
        ranges = self._files.book.edges
        parts = list(self._files.parts)
        owned = (ranges.ends - ranges.starts)[parts].sum(axis=0)
        if self._files.num_hops == 0:  # edges from other partitions are owned, but not in the graph
            (part,) = parts
            cut = read_stats(self._files.output, part)["cut_edges"]
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
            with _open_graph(self._files, part, self._ids, folder) as graph:
                for type_id, (src, dst) in enumerate(targets):
                    for block in graph.blocks(type_id):
                        src[block.eids], dst[block.eids] = block.src, block.dst

    def _sort(self, folder: Path, type_id: int, direction: str, edges: Edges) -> None:
        keys, others = (edges.dst, edges.src) if direction == "in" else (edges.src, edges.dst)
        indptr = np.zeros(self._num_nodes(type_id, direction) + 1, np.int64)
        for begin in range(0, len(keys), BLOCK):
            _count(keys[begin : begin + BLOCK], indptr[1:])
            self._resident.check()
        np.cumsum(indptr, out=indptr)
        np.save(folder / f"{type_id}-indptr.npy", indptr)
        indices, eids = (
            create_npy(folder / f"{type_id}-{name}.npy", edges.num_edges) for name in ("indices", "eids")
        )
        for begin in range(0, len(keys), BLOCK):
            block = slice(begin, begin + BLOCK)
            _fill(keys[block], others[block], begin, indptr, indices, eids)
            self._resident.check()


@dataclass(frozen=True)
class _EdgeBlock:
    """Some edges of one type: (n,) int64 type-wise IDs each."""

    src: Ids
    dst: Ids
    eids: Ids


class _PartGraph:
    """The graph of a partition.

    Args:
        files: The output.
        part: Number of the partition.
        ids: Which IDs the edges and their ends are to have.
        columns: Its columns, mapped.
        src: (edges,) int64, local IDs of the sources, by local edge ID.
        dst: (edges,) int64, local IDs of the destinations, by local edge ID.
    """

    def __init__(
        self, files: OutputFiles, part: int, ids: IdKind, columns: Mapping[str, Array], src: Ids, dst: Ids
    ) -> None:
        self._book = files.book
        self._part = part
        self._ids = ids
        self._columns = columns
        self._src = src
        self._dst = dst

    def blocks(self, type_id: int) -> Iterator[_EdgeBlock]:
        """Yield the edges of one type that the partition owns and has in its graph, by edge ID.

        Peak memory: 16 bytes a node of the partition, 64 MiB.
        """
        part, ranges = self._part, self._book.edges
        start, end = (int(bound[part, type_id]) for bound in (ranges.starts, ranges.ends))
        # own edges come first, ascending; without a halo, those from other partitions are missing
        num_own = int(ranges.ends[part, -1] - ranges.starts[part, 0])
        new_ids = self._columns["edges/new_id"][:num_own]
        first, last = np.searchsorted(new_ids, [start, end]).tolist()
        shift = int(ranges.typed_starts[part, type_id]) - start
        nodes = self._node_ids()
        for begin in range(first, last, BLOCK):
            here = slice(begin, min(begin + BLOCK, last))
            if self._ids == "original":
                eids = np.array(self._columns["edges/orig_id"][here])
            else:
                eids = new_ids[here] + shift
            yield _EdgeBlock(nodes[self._src[here]], nodes[self._dst[here]], eids)

    def _node_ids(self) -> Ids:
        """Return (local nodes,) int64, the type-wise IDs of the inner and halo nodes."""
        if self._ids == "original":
            return np.array(self._columns["nodes/orig_id"])
        typed: Ids = self._book.nodes.to_typed(np.array(self._columns["nodes/new_id"]))[1]
        return typed


def _stored_edges(files: OutputFiles, part: int, ids: IdKind) -> dict[str, StoredArray]:
    """Return the stored columns that the edges of a partition are made from."""
    nodes, edges = files.arrays(part, "nodes"), files.arrays(part, "edges")
    kind = "orig_id" if ids == "original" else "new_id"
    ends = ["src", "dst"]
    if "src" not in edges:
        sparse = next(name for name in SPARSE_FORMATS if f"{name}/indptr" in edges)
        ends = [f"{sparse}/{name}" for name in ("indptr", "indices", "edge_ids")]
    wanted = {f"edges/{name}": edges[name] for name in ("new_id", kind, *ends)}
    return {f"nodes/{kind}": nodes[kind], **wanted}


@contextmanager
def _open_graph(files: OutputFiles, part: int, ids: IdKind, folder: Path) -> Iterator[_PartGraph]:
    """Open the graph of a partition.

    Args:
        files: The output.
        part: Number of the partition.
        ids: Which IDs the edges and their ends are to have.
        folder: Takes fetched files, and 16 bytes an edge if there is no COO, while the context lasts.
    """
    paths = [folder / name for name in SCRATCH]
    try:
        with files.mapped(_stored_edges(files, part, ids), folder) as columns:
            if "edges/src" in columns:
                src, dst = columns["edges/src"], columns["edges/dst"]
            else:
                src, dst = _decompress(columns, paths)
            yield _PartGraph(files, part, ids, columns, src, dst)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _decompress(columns: Mapping[str, Array], paths: list[Path]) -> tuple[Ids, Ids]:
    """Write sources and destinations by edge ID, from CSC or CSR, to files, and return them mapped."""
    sparse = next(name for name in SPARSE_FORMATS if f"edges/{name}/indptr" in columns)
    begins, others, eids = (columns[f"edges/{sparse}/{name}"] for name in ("indptr", "indices", "edge_ids"))
    if not len(eids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near, far = (np.memmap(path, np.int64, "w+", shape=(len(eids),)) for path in paths)
    for begin in range(0, len(eids), BLOCK):
        here = np.arange(begin, min(begin + BLOCK, len(eids)))
        ids = eids[here]
        near[ids] = np.searchsorted(begins, here, side="right") - 1
        far[ids] = others[here]
    return (near, far) if sparse == "csr" else (far, near)


@compiled
def _count(keys: Ids, degrees: Ids) -> None:
    """Add a block of edges to the degrees.

    Args:
        keys: (n,) int64, the end to sort by, type-wise; negative if there is no edge with that ID.
        degrees: (nodes,) int64, added to.
    """
    for i in range(len(keys)):
        if keys[i] >= 0:
            degrees[keys[i]] += 1


@compiled
def _fill(keys: Ids, others: Ids, first: int, positions: Ids, neighbours: Ids, eids: Ids) -> None:
    """Enter a block of edges by counting sort, which keeps the order of edge IDs.

    Args:
        keys: (n,) int64, the end to sort by, type-wise; negative if there is no edge with that ID.
        others: (n,) int64, the other end, type-wise.
        first: Edge ID of the first edge of the block; the others follow.
        positions: (nodes,) int64, the position of the next edge of each node, updated.
        neighbours: (edges,) int64, written.
        eids: (edges,) int64, written.
    """
    for i in range(len(keys)):
        key = keys[i]
        if key >= 0:
            neighbours[positions[key]] = others[i]
            eids[positions[key]] = first + i
            positions[key] += 1


@compiled_with_arrays
def _contain(indptr: Ids, neighbours: Ids, keys: Ids, others: Ids) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        for place in range(indptr[keys[i]], indptr[keys[i] + 1]):
            if neighbours[place] == others[i]:
                found[i] = True
                break
    return found
