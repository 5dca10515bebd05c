"""The edges of an output by edge ID, and sorted by their ends (CSC, CSR), as mapped arrays in the cache.

They are made once, partition by partition, from the stored columns of the partitions, and mapped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.book import read_stats
from partition_ops.artifacts.dropped_edges import num_dropped
from partition_ops.formats.columns import Array, StoredArray
from partition_ops.system.compilation import compiled, compiled_with_arrays
from partition_ops.system.mapped_files import new_array, new_npy
from partition_ops.train.output_files import (
    MISSING,
    NPY_HEADER,
    IdKind,
    Ids,
    OutputFiles,
    ResidentLimit,
    map_npy,
)

Direction = Literal["in", "out"]
BLOCK = 1 << 20  # edges that are read together
SPARSE_FORMATS = ("csr", "csc")  # groups that stand for edges/src and edges/dst; see `Format.arrays`
SCRATCH = ("edges-src", "edges-dst")


@dataclass(frozen=True)
class Edges:
    """The edges of one type by edge ID."""

    src: Ids  # (IDs,) int64, type-wise IDs of the sources; -1 if there is no edge with that ID
    dst: Ids  # (IDs,) int64, type-wise IDs of the destinations; also -1
    num_edges: int  # number of edges


@dataclass(frozen=True)
class SortedEdges:
    """The edges of one type by destination (CSC) or by source (CSR)."""

    indptr: Ids  # (nodes + 1,) int64, where the edges of each node begin
    indices: Ids  # (edges,) int64, type-wise IDs of their other ends
    eids: Ids  # (edges,) int64, type-wise edge IDs, ascending for each node

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
        self._sorted: dict[Direction, list[SortedEdges]] = {}
        self.num_ids = [self._count_ids(t) for t in range(len(files.book.canonical_etypes))]

    @cached_property
    def by_id(self) -> list[Edges]:
        """The edges of each type by edge ID, mapped.

        Peak memory while they are made: 16 bytes a node of a partition and 64 MiB. Disk: 16 bytes an edge.
        While they are made, also the files of the graph of the largest partition if the output is on S3, and
        16 bytes an edge of it if the partitions store no COO.
        """
        present = self._num_present()

        def num_bytes() -> int:
            stored = [self._stored(part) for part in self._files.parts]
            size = self._files.scratch_bytes(stored) + sum(16 * n + 2 * NPY_HEADER for n in self.num_ids)
            return size + max(0 if "edges/src" in s else 16 * s["edges/new_id"].shape[0] for s in stored)

        def make(folder: Path) -> None:
            targets = []
            for type_id, number in enumerate(self.num_ids):
                pair = [
                    new_npy(folder / f"{type_id}-{end}.npy", (number,), np.int64) for end in ("src", "dst")
                ]
                for array in pair if present[type_id] < number else ():
                    array[:] = MISSING
                targets.append(pair)
            for part in self._files.parts:
                for type_id, src, dst, eids in self._edges_of(part, folder):
                    targets[type_id][0][eids], targets[type_id][1][eids] = src, dst

        folder = self._make_once("edges", num_bytes, make)
        return [
            Edges(self._map(folder / f"{t}-src.npy"), self._map(folder / f"{t}-dst.npy"), present[t])
            for t in range(len(self.num_ids))
        ]

    def sorted(self, direction: Direction) -> list[SortedEdges]:
        """Return the edges of each type by destination (``in``) or by source (``out``), mapped.

        Memory and disk are those of `by_id` and `_sort_all`.
        """
        if direction not in self._sorted:
            self._sorted[direction] = self._sort_all(direction, self.by_id)
        return self._sorted[direction]

    def _sort_all(self, direction: Direction, edges: list[Edges]) -> list[SortedEdges]:
        """Sort the edges of each type, and map them.

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
        edges = self._files.book.edges
        name = edges.names.names[type_id]
        dropped = 0 if self._ids == "new" else num_dropped(self._files.output, name)
        return edges.count(type_id) + dropped

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

    def _sort(self, folder: Path, type_id: int, direction: str, edges: Edges) -> None:
        keys, others = (edges.dst, edges.src) if direction == "in" else (edges.src, edges.dst)
        indptr = np.zeros(self._num_nodes(type_id, direction) + 1, np.int64)
        for begin in range(0, len(keys), BLOCK):
            _count(keys[begin : begin + BLOCK], indptr[1:])
            self._resident.check()
        np.cumsum(indptr, out=indptr)
        np.save(folder / f"{type_id}-indptr.npy", indptr)
        indices, eids = (
            new_npy(folder / f"{type_id}-{name}.npy", (edges.num_edges,), np.int64)
            for name in ("indices", "eids")
        )
        for begin in range(0, len(keys), BLOCK):
            block = slice(begin, begin + BLOCK)
            _fill(keys[block], others[block], begin, indptr, indices, eids)
            self._resident.check()

    def _stored(self, part: int) -> dict[str, StoredArray]:
        """Return the stored columns that the edges of a partition are made from."""
        nodes, edges = self._files.arrays(part, "nodes"), self._files.arrays(part, "edges")
        kind = "orig_id" if self._ids == "original" else "new_id"
        ends = ["src", "dst"]
        if "src" not in edges:
            sparse = next(name for name in SPARSE_FORMATS if f"{name}/indptr" in edges)
            ends = [f"{sparse}/{name}" for name in ("indptr", "indices", "edge_ids")]
        wanted = {f"edges/{name}": edges[name] for name in ("new_id", kind, *ends)}
        return {f"nodes/{kind}": nodes[kind], **wanted}

    def _edges_of(self, part: int, folder: Path) -> Iterator[tuple[int, Ids, Ids, Ids]]:
        """Yield the edges that a partition owns and has in its graph, in blocks, by type and edge ID.

        Args:
            part: Number of the partition.
            folder: Takes fetched files, and 16 bytes an edge if there is no COO, meanwhile.

        Yields:
            The ID of the edge type, and (n,) int64 type-wise IDs of sources, destinations and edges.

        Peak memory: 16 bytes a node of the partition, 64 MiB.
        """
        book, original = self._files.book, self._ids == "original"
        ranges, paths = book.edges, [folder / name for name in SCRATCH]
        with ExitStack() as stack:
            for path in paths:
                stack.callback(path.unlink, missing_ok=True)
            columns = stack.enter_context(self._files.mapped(self._stored(part), folder))
            if "edges/src" in columns:
                src, dst = columns["edges/src"], columns["edges/dst"]
            else:
                src, dst = _decompress(columns, paths)
            nodes = np.array(columns["nodes/orig_id" if original else "nodes/new_id"])
            if not original:
                nodes = book.nodes.to_typed(nodes)[1]
            # own edges come first, ascending; without a halo, those from other partitions are missing
            new_ids = columns["edges/new_id"][: int(ranges.ends[part, -1] - ranges.starts[part, 0])]
            for type_id in range(len(self.num_ids)):
                start, end = (int(bound[part, type_id]) for bound in (ranges.starts, ranges.ends))
                first, last = np.searchsorted(new_ids, [start, end]).tolist()
                shift = int(ranges.typed_starts[part, type_id]) - start
                for begin in range(first, last, BLOCK):
                    here = slice(begin, min(begin + BLOCK, last))
                    eids = np.array(columns["edges/orig_id"][here]) if original else new_ids[here] + shift
                    yield type_id, nodes[src[here]], nodes[dst[here]], eids


def _decompress(columns: Mapping[str, Array], paths: list[Path]) -> tuple[Ids, Ids]:
    """Write sources and destinations by edge ID, from CSC or CSR, to files, and return them mapped."""
    sparse = next(name for name in SPARSE_FORMATS if f"edges/{name}/indptr" in columns)
    begins, others, eids = (columns[f"edges/{sparse}/{name}"] for name in ("indptr", "indices", "edge_ids"))
    near, far = (new_array(path, (len(eids),), np.int64) for path in paths)
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
