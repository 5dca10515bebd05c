"""The two ends of all edges, kept where they fit: in memory, else in buckets on the disk.

Edge types whose ends have the same two node types make up a group, because only among those can an edge
of one type lie over an edge of another. The two ends of an edge are packed into one 64-bit key whose last
bit is the direction; equal keys are equal edges. Where the keys of all edges do not fit into the memory
given, each is appended to one of several files chosen by a hash of the pair, and each file is sorted by
itself: the classic external method, memory bounded by the size of a bucket.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import EngineError
from partition_ops.system.parallel import cores, map_in_threads

Ids = npt.NDArray[np.int64]
MIX = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: spreads consecutive keys over all hashes
MOST_FILTER_BITS = 26
EXAMPLES = 10  # edges of which the keys are told
BYTES_PER_EDGE = 24  # the key, the copy that is sorted, and what compares it
BYTES_PER_BUCKET_EDGE = 48  # its place as well, and the row as it was read
MOST_BUCKETS = 1024


@dataclass
class _Group:
    """Edge types between the same two node types.

    Attributes:
        node_types: The two, the smaller node type ID first.
        width: Number of nodes of the second: pairs are first * width + second.
        edges: How many there are.
        edge_types: Their edge type IDs.
        keys: Keys by edge type, where they are in memory.
    """

    node_types: tuple[int, int]
    width: int
    edges: int = 0
    edge_types: list[int] = field(default_factory=list)
    keys: dict[int, list[Keys]] = field(default_factory=dict)


class PairStore:
    """The ends of all edges; usable from several threads.

    Peak memory: ``memory``, and 40 bytes for each edge that has a duplicate; with more than a thousand
    times as many bytes of keys as ``memory`` has, a thousandth of those.

    Args:
        metadata: The graph's metadata.
        memory: Bytes that the keys may take.
        scratch: Folder for buckets, used where the memory does not suffice.
        across_types: Edges of several types count as those of the first type between the same nodes, and
            their places as homogeneous edge IDs, so that an edge of another type is a duplicate too.

    Raises:
        EngineError: Two node types have more than 2**62 pairs of nodes.
    """

    def __init__(
        self, metadata: GraphMetadata, *, memory: int, scratch: Path, across_types: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self._scratch = Path(tempfile.mkdtemp(dir=scratch))
        self._offsets = metadata.edge_offsets if across_types else None
        self._groups: dict[tuple[int, int], _Group] = {}
        self._group_of: list[tuple[_Group, bool]] = []
        for type_id in range(len(metadata.edge_types)):
            self._add_type(metadata, type_id)
        self.buckets = _buckets(sum(metadata.num_edges), self._groups.values(), memory)
        # a graph with more edges than it says is refused; its keys must not fill the memory before
        self._room = max(sum(metadata.num_edges), memory // BYTES_PER_EDGE)

    def add(self, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        """Add edges of one type.

        Args:
            type_id: Edge type ID.
            places: (n,) int64, ascending, where the edges are: IDs, or whatever else tells them apart.
            src: (n,) int64, type-wise IDs of the sources.
            dst: (n,) int64, type-wise IDs of the destinations.
        """
        group, backwards = self._group_of[type_id]
        with self._lock:
            self._room -= len(src)
            if self._room < 0:
                return
        if self._offsets is not None:
            places = places + self._offsets[type_id]
            type_id = group.edge_types[0]
        keys = _keys(src, dst, group, backwards)
        if self.buckets == 1:
            with self._lock:
                group.keys.setdefault(type_id, []).append(Keys(keys, _shortened(places)))
            return
        order, ends = _bucket_order(keys, self.buckets)
        rows = np.stack([keys[order], places[order]], axis=1)
        with self._lock:
            for bucket, piece in enumerate(np.split(rows, ends[:-1])):
                if len(piece):
                    with self._file(type_id, bucket).open("ab") as stream:
                        piece.tofile(stream)

    def overlaps(self) -> Iterator[Overlaps]:
        """What is found, group by group and bucket by bucket; several at a time."""
        jobs = [(group, bucket) for group in self._groups.values() for bucket in range(self.buckets)]
        return map_in_threads(lambda job: find_overlaps(self._load(*job)), jobs)

    def ends(self, type_id: int, key: int) -> tuple[int, int]:
        """Source and destination of an edge, type-wise IDs, from its key."""
        ends = divmod(key >> 1, self._group_of[type_id][0].width)
        return (ends[1], ends[0]) if key & 1 else ends

    def _add_type(self, metadata: GraphMetadata, type_id: int) -> None:
        edge_type = metadata.edge_types[type_id]
        ends = metadata.node_type_id(edge_type.src), metadata.node_type_id(edge_type.dst)
        first, second = min(ends), max(ends)
        width = max(metadata.num_nodes[second], 1)
        if metadata.num_nodes[first] * width >= 2**62:
            raise EngineError(f"{edge_type} has too many pairs of nodes to look for duplicates")
        group = self._groups.setdefault((first, second), _Group((first, second), width))
        if self._offsets is None or not group.edge_types:
            group.edge_types.append(type_id)
        group.edges += metadata.num_edges[type_id]
        self._group_of.append((group, ends[0] > ends[1]))

    def _file(self, type_id: int, bucket: int) -> Path:
        return self._scratch / f"{type_id}-{bucket}"

    def _load(self, group: _Group, bucket: int) -> dict[int, list[Keys]]:
        """Keys of one bucket by edge type; they are forgotten here."""
        if self.buckets == 1:
            keys, group.keys = group.keys, {}
            return {type_id: keys.get(type_id, []) for type_id in group.edge_types}
        found = {}
        for type_id in group.edge_types:
            path = self._file(type_id, bucket)
            if path.exists():
                rows = np.fromfile(path, np.int64).reshape(-1, 2)
                path.unlink()
                found[type_id] = [Keys(rows[:, 0].copy(), rows[:, 1].copy())]
        return found


def _buckets(edges: int, groups: Iterable[_Group], memory: int) -> int:
    """One where all keys fit into memory; else so many that a bucket for each core does."""
    if edges * BYTES_PER_EDGE <= memory:
        return 1
    most = max(group.edges for group in groups) * BYTES_PER_BUCKET_EDGE * cores()
    return min(max(-(-most // memory), 2), MOST_BUCKETS)


def _shortened(places: Ids) -> Ids | int:
    """The first place alone, where they are consecutive."""
    consecutive = len(places) > 0 and int(places[-1] - places[0]) == len(places) - 1
    return int(places[0]) if consecutive else places


def _keys(src: Ids, dst: Ids, group: _Group, backwards: bool) -> Ids:
    """(n,) int64: the pair of nodes, the smaller node type or ID first, and the direction."""
    if group.node_types[0] != group.node_types[1]:
        first, second = (dst, src) if backwards else (src, dst)
        pairs: Ids = (first * group.width + second) * 2
        return pairs + int(backwards)
    pairs = np.minimum(src, dst) * group.width + np.maximum(src, dst)
    return pairs * 2 + (src > dst)


def _bucket_order(keys: Ids, buckets: int) -> tuple[Ids, Ids]:
    """An order that brings the keys of a bucket together, and where each bucket ends."""
    pairs = (keys >> 1).astype(np.uint64)  # both directions of a pair go to the same bucket
    hashed = ((pairs * MIX) >> np.uint64(40)) % np.uint64(buckets)
    bucket = hashed.astype(np.uint16)
    return np.argsort(bucket, kind="stable"), np.cumsum(np.bincount(bucket, minlength=buckets))


@dataclass(frozen=True)
class Keys:
    """Keys of some edges of one type.

    Attributes:
        values: (n,) int64, the pair of nodes with the direction in the last bit.
        places: (n,) int64, where each edge is; or the place of the first, where they are consecutive.
    """

    values: Ids
    places: Ids | int

    def place(self, rows: Ids) -> Ids:
        """Where the edges of some rows are."""
        return rows + self.places if isinstance(self.places, int) else self.places[rows]


@dataclass(frozen=True)
class Repeated:
    """Edges of one type that repeat an earlier one.

    Attributes:
        places: (n,) int64, ascending.
        keys: (up to ten,) int64, keys of the first of them.
    """

    places: Ids
    keys: Ids


@dataclass(frozen=True)
class Overlaps:
    """What is found in one group of edge types.

    Attributes:
        duplicates: By edge type ID, the edges that repeat an earlier one.
        parallel: Edges that lie over an edge of another type of the same direction.
        reversed: Pairs of nodes with edges in both directions.
    """

    duplicates: dict[int, Repeated]
    parallel: int
    reversed: int


def find_overlaps(types: Mapping[int, Sequence[Keys]]) -> Overlaps:
    """Look for equal keys.

    Args:
        types: By edge type ID, the keys of its edges.

    Returns:
        The findings. Peak memory: the keys once more, and 40 bytes for each edge that has a duplicate.
    """
    duplicates, distinct = {}, []
    for type_id, blocks in types.items():
        ordered = _sorted([block.values for block in blocks])
        again = ordered[1:] == ordered[:-1]
        if again.any():
            duplicates[type_id] = _repeated(blocks, np.unique(ordered[1:][again]))
            ordered = np.concatenate([ordered[:1], ordered[1:][~again]])
        distinct.append(ordered)
    merged = distinct[0] if len(distinct) == 1 else _sorted(distinct)
    same = merged[1:] == merged[:-1]
    if same.any():
        merged = np.concatenate([merged[:1], merged[1:][~same]])
    return Overlaps(duplicates, int(same.sum()), _both_directions(merged))


def _sorted(arrays: Sequence[Ids]) -> Ids:
    """The values of all arrays, in order; never one of the arrays itself."""
    merged = np.concatenate([np.empty(0, np.int64), *arrays])
    merged.sort()
    return merged


def _both_directions(keys: Ids) -> int:
    """How many pairs of nodes have both directions, from ascending keys without repetitions."""
    return int(((keys[1:] >> 1) == (keys[:-1] >> 1)).sum())


def _repeated(blocks: Sequence[Keys], repeated: Ids) -> Repeated:
    """The edges with one of the ascending keys, but for the first edge of each key."""
    seen = _Filter(repeated)
    first = np.full(len(repeated), np.iinfo(np.int64).max)
    found = []
    for block in blocks:
        rows = seen.candidates(block.values)
        index = np.searchsorted(repeated, block.values[rows]).clip(max=len(repeated) - 1)
        really = repeated[index] == block.values[rows]
        index, places = index[really], block.place(rows[really])
        np.minimum.at(first, index, places)
        found.append((index, places))
    later = [places != first[index] for index, places in found]
    places = np.concatenate([places[keep] for (_, places), keep in zip(found, later, strict=True)])
    index = np.concatenate([index[keep] for (index, _), keep in zip(found, later, strict=True)])
    order = np.argsort(places)
    return Repeated(places[order], repeated[index[order[:EXAMPLES]]])


class _Filter:
    """Tells most keys that are not among some others, faster than a search does: a table of hashes."""

    def __init__(self, keys: Ids) -> None:
        bits = min(max(int(16 * len(keys)).bit_length(), 10), MOST_FILTER_BITS)
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, np.bool_)
        self._table[self._hashed(keys)] = True

    def candidates(self, keys: Ids) -> Ids:
        """Rows of the keys that may be among them."""
        return np.flatnonzero(self._table[self._hashed(keys)])

    def _hashed(self, keys: Ids) -> npt.NDArray[np.uint64]:
        return (keys.view(np.uint64) * MIX) >> self._shift
