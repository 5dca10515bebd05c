"""The edges of one partition out of its ``graph.dgl``, whatever sparse formats that holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.formats.dgl.array_places import ArrayPlace, GraphPlaces
from partition_ops.train.mapped import MappedFile
from partition_ops.train.source import IdKind, Ids

BLOCK = 1 << 20  # edges that are looked at together
SCRATCH = ("edges-src", "edges-dst")


@dataclass(frozen=True)
class EdgeBlock:
    """Some edges of one type: (n,) int64 type-wise IDs each."""

    src: Ids
    dst: Ids
    eids: Ids


class PartGraph:
    """The arrays of a partition's graph.

    Args:
        file: The graph file.
        places: Where its arrays are.
        src: (edges,) int64, local IDs of the sources, by local edge ID.
        dst: (edges,) int64, the same of the destinations.
    """

    def __init__(self, file: MappedFile, places: GraphPlaces, src: Ids, dst: Ids) -> None:
        self._file = file
        self._places = places
        self._src = src
        self._dst = dst

    def blocks(self, book: PartitionBook, part: int, type_id: int, ids: IdKind) -> Iterator[EdgeBlock]:
        """The edges of one type that the partition owns and has in its graph, by edge ID.

        Args:
            book: The output's partition book.
            part: Which partition this is.
            type_id: Which edge type.
            ids: Which IDs the edges and their ends are to have.

        Peak memory: 16 bytes a node of the partition, 64 MiB.
        """
        ranges = book.edges
        start, end = (int(bound[part, type_id]) for bound in (ranges.starts, ranges.ends))
        # own edges come first, ascending; without a halo, those from other partitions are missing
        num_own = int(ranges.ends[part, -1] - ranges.starts[part, 0])
        new_ids = self._array(self._places.edges["_ID"])[:num_own]
        first, last = np.searchsorted(new_ids, [start, end]).tolist()
        shift = int(ranges.typed_starts[part, type_id]) - start
        nodes = self._node_ids(book, ids)
        for begin in range(first, last, BLOCK):
            here = slice(begin, min(begin + BLOCK, last))
            if ids == "original":
                eids = np.array(self._array(self._places.edges["orig_id"])[here])
            else:
                eids = new_ids[here] + shift
            yield EdgeBlock(nodes[self._src[here]], nodes[self._dst[here]], eids)

    def _node_ids(self, book: PartitionBook, ids: IdKind) -> Ids:
        """(local nodes,) int64, the type-wise IDs of a partition's inner and halo nodes."""
        if ids == "original":
            return np.array(self._array(self._places.nodes["orig_id"]))
        typed: Ids = book.nodes.to_typed(np.array(self._array(self._places.nodes["_ID"])))[1]
        return typed

    def _array(self, place: ArrayPlace) -> npt.NDArray[Any]:
        return mapped_array(self._file, place)


@contextmanager
def part_graph(file: MappedFile, places: GraphPlaces, folder: Path) -> Iterator[PartGraph]:
    """Open a partition's graph.

    Args:
        file: The graph file.
        places: Where its arrays are.
        folder: Takes, as long as the context lasts, 16 bytes an edge where the graph is not there as COO.
    """
    if "coo" in places.formats:
        src, dst, _ = (mapped_array(file, place) for place in places.formats["coo"])
        yield PartGraph(file, places, src, dst)
        return
    paths = [folder / name for name in SCRATCH]
    try:
        yield PartGraph(file, places, *_by_edge_id(file, places, paths))
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _by_edge_id(file: MappedFile, places: GraphPlaces, paths: list[Path]) -> tuple[Ids, Ids]:
    """Sources and destinations out of CSC or CSR, in files of their own."""
    name = next(iter(places.formats))
    begins, others, eids = (mapped_array(file, place) for place in places.formats[name])
    if not len(eids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near, far = (np.memmap(path, np.int64, "w+", shape=(len(eids),)) for path in paths)
    for begin in range(0, len(eids), BLOCK):
        here = np.arange(begin, min(begin + BLOCK, len(eids)))
        ids = eids[here]
        near[ids] = np.searchsorted(begins, here, side="right") - 1
        far[ids] = others[here]
    return (near, far) if name == "csr" else (far, near)


def mapped_array(file: MappedFile, place: ArrayPlace) -> npt.NDArray[Any]:
    """An array of a mapped file."""
    return file.array(place.offset, place.dtype, place.shape)
