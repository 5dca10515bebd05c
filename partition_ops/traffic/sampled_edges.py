"""`SampledEdges`, the edges of a graph in the order in which the model of the traffic reads them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.mapped_files import new_array
from partition_ops.system.parallel import map_in_threads
from partition_ops.traffic.parallel_edges import has_parallel_edges, join_parallel_edges

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Block = tuple[int, Ids, Ids]
MOST_NARROW = 2**31 - 1
logger = logging.getLogger("partition_ops")
RANGE_BYTES = 1 << 22  # of the groups of a range's edges: what a thread writes to in any order
MOST_RANGES = 256
RENUMBERED = 1 << 20  # edges at a time


@dataclass(frozen=True)
class SampledEdges:
    """The edges of a graph by source, with the group that each belongs to.

    A *group* is the in-edges of one node that have one type: DGL's samplers draw the fan-out from each group.
    Edges with the same two ends are one edge here, of a *joined* group; see `parallel_edges`. Nodes are
    counted by homogeneous ID, of the input or new, as the caller likes.
    """

    first: Counts  # (nodes + 1,) int64, where the out-edges of each node begin
    groups: Ids  # (edges,) int32 or int64, the group of each edge, by source; mapped if a folder was given
    # (groups,) int32 or int64, the destination of the edges of each group, the joined ones last
    group_nodes: Ids
    # (groups,) int64, number of edges of each group. Of a joined one, about how many edges share a sample of
    # an edge of it: at least 1
    group_sizes: Counts
    # (joined groups, 2) int64, the two groups that each stands for, of which the first one may be joined
    # itself
    joined: Counts = field(default_factory=lambda: np.empty((0, 2), np.int64))

    @property
    def nbytes(self) -> int:
        """Size of all arrays."""
        return sum(getattr(self, one.name).nbytes for one in fields(self))

    @property
    def num_nodes(self) -> int:
        return len(self.first) - 1

    @property
    def num_edges(self) -> int:
        return len(self.groups)

    @property
    def num_groups(self) -> int:
        return len(self.group_nodes)

    def destinations(self) -> Ids:
        """Return (edges,) the destination of each edge, in the order of `groups`."""
        found: Ids = self.group_nodes[self.groups]
        return found


def on_disk(edges: SampledEdges, folder: Path) -> SampledEdges:
    """Return the edges as mapped files of a folder, which take no memory until they are read.

    An array for which the disk has no room stays in memory.
    """

    def put(name: str, array: Ids) -> Ids:
        if not len(array):
            return array
        path = folder / name
        try:
            array.tofile(path)  # an array that is mapped first would end the process if the disk is full
        except OSError as error:
            logger.warning("%s stays in memory: %s", path, error)
            path.unlink(missing_ok=True)
            return array
        return np.memmap(path, array.dtype, mode="r+", shape=array.shape)

    return SampledEdges(**{one.name: put(one.name, getattr(edges, one.name)) for one in fields(edges)})


class GroupNumbers:
    """Numbers of groups by edge type and destination: first of all that there could be, then without gaps.

    Args:
        num_nodes: Number of nodes of all types.
        destinations: By edge type ID, the homogeneous ID of the first node of the type of its destinations,
            and the number of nodes of that type.

    Attributes:
        num_nodes: As above.
        most: Number of groups that there could be.
        node: Dtype of a node.
        group: Dtype of a group.
    """

    def __init__(self, num_nodes: int, destinations: Sequence[tuple[int, int]]) -> None:
        self.num_nodes = num_nodes
        self._starts = np.array([begin for begin, _ in destinations], np.int64)
        self._offsets = np.cumsum([0, *(count for _, count in destinations)])
        self.most = int(self._offsets[-1])
        self.node = np.dtype(np.int32 if num_nodes <= MOST_NARROW else np.int64)
        self.group = np.dtype(np.int32 if self.most <= MOST_NARROW else np.int64)

    @classmethod
    def of_graph(cls, metadata: GraphMetadata) -> GroupNumbers:
        """Return those of a graph by its homogeneous IDs."""
        offsets = metadata.node_offsets
        types = [metadata.node_type_id(one.dst) for one in metadata.edge_types]
        return cls(offsets[-1], [(offsets[dst], metadata.num_nodes[dst]) for dst in types])

    def shift(self, type_id: int) -> int:
        """Return what is added to a destination of an edge type to get the number of its group."""
        return int(self._offsets[type_id] - self._starts[type_id])

    def numbered(
        self,
        first: Counts,
        groups: Ids,
        sizes: Counts,
        *,
        parallel: bool = True,
        folder: Path | None = None,
    ) -> SampledEdges:
        """Return edges by source, after groups without edges have lost their numbers.

        Args:
            first: (nodes + 1,) int64, where the out-edges of each node begin.
            groups: (edges,) changed: the number of each edge's group.
            sizes: (most,) int64, number of edges of each group.
            parallel: Whether two edges may have the same ends.
            folder: As for `EdgeCollector`.
        """
        kept = np.flatnonzero(sizes)
        numbers = _array(folder, "numbers", len(sizes), self.group)
        np.cumsum(sizes > 0, out=numbers)
        numbers -= 1
        pieces = (groups[at : at + RENUMBERED] for at in range(0, len(groups), RENUMBERED))
        deque(map_in_threads(lambda piece: _renumber(piece, numbers), pieces), maxlen=0)
        numbers = np.empty(0, self.group)
        nodes = np.empty(len(kept), self.node)
        ends = np.searchsorted(kept, self._offsets)
        for (begin, end), start, offset in zip(pairwise(ends), self._starts, self._offsets, strict=False):
            nodes[begin:end] = kept[begin:end] + (start - offset)
        found = SampledEdges(first, groups, nodes, sizes[kept])
        return _joined(found) if parallel else found


class EdgeCollector:
    """Sorts edges by source, and numbers their groups.

    Edges are dealt to ranges of sources as they come. So what is written in any order later, the edges of a
    range and their number by source, stays in the cache of the processor; and, where a file does not fit into
    memory, no page of it is read again and again.

    Args:
        numbers: Those of the groups.
        num_edges: Largest number of edges.
        folder: Folder for the arrays, which are then files.

    Peak memory: 16 bytes a node, 12 bytes for each node of the destinations of every edge type, and 12 bytes
    an edge (up to twice that beyond 2**31 nodes or groups), which are files if there is a folder; 28 bytes a
    group. If there are parallel edges, 24 bytes a node and 48 a joined group in addition. The result keeps 8
    bytes a node, 12 a group, and a third of the bytes an edge.
    """

    def __init__(self, numbers: GroupNumbers, num_edges: int, *, folder: Path | None = None) -> None:
        self._numbers, self._folder = numbers, folder
        wanted = min(num_edges * numbers.group.itemsize // RANGE_BYTES + 1, MOST_RANGES)
        self._bits = max(-(-numbers.num_nodes // wanted) - 1, 0).bit_length()  # 2**bits nodes in a range
        self._ranges = -(-numbers.num_nodes >> self._bits)
        self._ends = _array(folder, "ends", 2 * num_edges, np.promote_types(numbers.node, numbers.group))
        self._taken, self._lock = 0, threading.Lock()
        # position of each block, its edges by range, and its (2, n) ends, by range
        self._blocks: list[tuple[int, Counts, Ids]] = []

    def add(self, position: int, type_id: int, src: Ids, dst: Ids) -> None:
        """Add edges of one type; several threads can add edges.

        Args:
            position: The blocks of all calls are taken in the ascending order of their positions. The
                out-edges of a node get the order of the blocks, and in a block that of its edges.
            type_id: Edge type ID.
            src: (n,) homogeneous IDs.
            dst: (n,) homogeneous IDs.

        Raises:
            InvalidInputError: There is no room for so many edges.
        """
        if not len(src):
            return
        counts, places = np.zeros((2, self._ranges), np.int64)
        with self._lock:
            if self._taken + 2 * len(src) > len(self._ends):
                raise InvalidInputError(
                    "The graph has more edges than metadata.json says",
                    found=f"at least {self._taken // 2 + len(src):,}",
                    expected=f"{len(self._ends) // 2:,}",
                    remedy="Correct the counts in metadata.json, and validate the graph again.",
                )
            ends = self._ends[self._taken : self._taken + 2 * len(src)].reshape(2, -1)
            self._taken += ends.size
            self._blocks.append((position, counts, ends))
        _deal(src, dst, self._numbers.shift(type_id), self._bits, counts, places, ends)

    def finish(self) -> SampledEdges:
        """Return the edges; nothing can be added after this."""
        first, groups = self._placed()
        sizes = zeros(self._folder, "sizes", (self._numbers.most,), np.int64)
        _count(groups, sizes)
        return self._numbers.numbered(first, groups, sizes, folder=self._folder)

    def _placed(self) -> tuple[Counts, Ids]:
        """Return where the edges of each source begin, and by source the number of each edge's group.

        Groups without edges have numbers here.
        """
        blocks = sorted(self._blocks, key=lambda block: block[0])
        self._blocks, self._ends = [], np.empty(0, self._ends.dtype)
        counts = np.array([of_ranges for _, of_ranges, _ in blocks]).reshape(len(blocks), self._ranges)
        ends = np.cumsum(counts, axis=1)
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.sum(axis=0, dtype=np.int64))])
        first = zeros(self._folder, "first", (self._numbers.num_nodes + 1,), np.int64)
        groups = _array(self._folder, "groups", int(bounds[-1]), self._numbers.group)

        def place(number: int) -> None:
            pieces = [
                dealt[:, end - count : end]
                for (*_, dealt), count, end in zip(blocks, counts[:, number], ends[:, number], strict=True)
                if count
            ]
            node = number << self._bits
            after = first[node + 1 : node + 1 + (1 << self._bits)]
            for sources, _ in pieces:
                _count(sources - node, after)
            np.cumsum(after, out=after)
            after += bounds[number]
            places = np.concatenate([bounds[number : number + 1], after[:-1]])
            for sources, dense in pieces:
                _place(sources, dense, node, places, groups)

        deque(map_in_threads(place, range(self._ranges)), maxlen=0)
        return first, groups


def _joined(edges: SampledEdges) -> SampledEdges:
    """Return the edges with parallel ones joined; their arrays are changed."""
    first, nodes, sizes = edges.first, edges.group_nodes, edges.group_sizes
    if not has_parallel_edges(first, edges.groups, nodes):  # in threads, which joining is not
        return edges
    groups, joined = join_parallel_edges(first, edges.groups, nodes)
    samples = 1 / np.concatenate([sizes, np.ones(len(joined))])  # of an edge, with fan-out 1
    nodes = np.concatenate([nodes, nodes[joined[:, 1]]])
    _add_samples(samples, joined)
    about = np.maximum(1 / samples, 1).astype(np.int64)
    about[: len(sizes)] = sizes
    return SampledEdges(first, groups[: first[-1]], nodes, about, joined)


@compiled
def _add_samples(samples: Ids, joined: Counts) -> None:
    """Write the expected samples of joined groups behind those of the others."""
    real = len(samples) - len(joined)
    for i in range(len(joined)):
        samples[real + i] = samples[joined[i, 0]] + samples[joined[i, 1]]


def collect_edges(
    num_nodes: int,
    destinations: Sequence[tuple[int, int]],
    num_edges: int,
    blocks: Iterable[Block],
    *,
    folder: Path | None = None,
) -> SampledEdges:
    """Return the edges of a graph by source; see `EdgeCollector`.

    Args:
        num_nodes: As for `GroupNumbers`.
        destinations: As for `GroupNumbers`.
        num_edges: Largest number of edges.
        blocks: Edges, each block of one type: the edge type ID, (n,) sources and (n,) destinations, both
            homogeneous IDs. They are read once; the edges of a source stay in their order.
        folder: As for `EdgeCollector`.
    """
    collector = EdgeCollector(GroupNumbers(num_nodes, destinations), num_edges, folder=folder)
    at = 0
    for type_id, src, dst in blocks:
        collector.add(at, type_id, src, dst)
        at += len(src)
    return collector.finish()


def read_sampled_edges(
    source: Store,
    metadata: GraphMetadata,
    dropped: Mapping[int, Ids] | None = None,
    *,
    parts: Ids | None = None,
    folder: Path | None = None,
) -> SampledEdges:
    """Read the edges of an input graph, which are in the order of their homogeneous IDs for each source.

    Args:
        source: The graph's root.
        metadata: Its metadata.
        dropped: By edge type ID, ascending type-wise IDs of edges that training does not have.
        parts: (nodes,) partition of each node by homogeneous ID, to leave out edges between two partitions,
            which trainers cannot sample without a halo.
        folder: Folder for mapped files; see `EdgeCollector`.

    Raises:
        InvalidInputError: As of `EdgeReader`, or there are more edges than the metadata say.

    Peak memory: as of `EdgeCollector`, and for each core a block of edges.
    """
    offsets, type_of = metadata.node_offsets, metadata.node_type_id
    ends = [(type_of(one.src), type_of(one.dst)) for one in metadata.edge_types]
    numbers = GroupNumbers.of_graph(metadata)
    collector = EdgeCollector(numbers, metadata.edge_offsets[-1], folder=folder)
    reader = EdgeReader(source, metadata, dropped)

    def add(chunk: EdgeChunk) -> None:
        type_id = chunk.edge_type_id
        before = metadata.edge_offsets[type_id]
        src, dst = (offsets[end] for end in ends[type_id])
        for block in reader.blocks(chunk):
            begins, ends_at = block.src + src, block.dst + dst
            if parts is not None:
                inside = parts[begins] == parts[ends_at]
                begins, ends_at = begins[inside], ends_at[inside]
            if len(begins):
                collector.add(int(block.edge_ids[0]) + before, type_id, begins, ends_at)

    deque(map_in_threads(add, reader.chunks()), maxlen=0)
    pa.default_memory_pool().release_unused()  # memory that the readers keep for the next file
    return collector.finish()


def _array(folder: Path | None, name: str, length: int, dtype: np.dtype[Any]) -> Ids:
    return np.empty(length, dtype) if folder is None else new_array(folder / name, (length,), dtype)


def zeros(folder: Path | None, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Ids:
    """Return an array of zeros, in memory or in a file of a folder, which is mapped.

    Raises:
        OSError: The disk has no room.
    """
    return np.zeros(shape, dtype) if folder is None else new_array(folder / name, shape, dtype)


@compiled
def _deal(src: Ids, dst: Ids, shift: int, bits: int, counts: Counts, places: Counts, ends: Ids) -> None:
    """Write the ends of edges by range of their sources, in their order in each range.

    Args:
        src: (n,) sources.
        dst: (n,) destinations.
        shift: What is added to these.
        bits: A range has 2**bits sources.
        counts: (ranges,) int64, zeros; output: the number of edges of each range.
        places: (ranges,) int64, overwritten.
        ends: (2, n) output.
    """
    for i in range(len(src)):
        counts[unsigned(src[i] >> bits)] += 1
    end = 0
    for number in range(len(counts)):
        places[number], end = end, end + counts[number]
    for i in range(len(src)):
        at = unsigned(src[i] >> bits)
        place = unsigned(places[at])
        ends[0, place], ends[1, place] = src[i], dst[i] + shift
        places[at] += 1


@compiled
def _count(keys: Ids, counts: Counts) -> None:
    """Add up how often there is each key."""
    for i in range(len(keys)):
        counts[unsigned(keys[i])] += 1


@compiled
def _place(src: Ids, dense: Ids, first_node: int, places: Counts, groups: Ids) -> None:
    """Write the groups of edges behind the earlier ones of their sources.

    Args:
        src: (n,) sources.
        dense: (n,) groups.
        first_node: The first source of ``places``.
        places: (nodes,) int64, where the next edge of each source goes; changed.
        groups: Output.
    """
    for i in range(len(src)):
        node = unsigned(src[i] - first_node)
        groups[unsigned(places[node])] = dense[i]
        places[node] += 1


@compiled
def _renumber(groups: Ids, numbers: Ids) -> None:
    """Replace each number by another one."""
    for i in range(len(groups)):
        groups[i] = numbers[unsigned(groups[i])]
