"""Search for duplicate, parallel and reversed edges, in memory or with buckets on disk.

Edge types between the same two node types form a group, because only their edges can have the same two end
nodes. The end nodes of an edge are packed into a 64-bit key whose last bit is the direction, so that equal
keys are duplicates. If the keys do not fit into the memory limit, each is appended to a file chosen by a hash
of the pair of nodes, and each file is searched separately, as in an external hash partitioning.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.equal_keys import find_equal_keys
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.compilation import compiled, compiled_inline, unsigned
from partition_ops.system.parallel import cores, unordered_in_threads

Ids = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64] | npt.NDArray[np.uint32]
MIX = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: spreads consecutive keys over all hashes
MOST_FILTER_BITS = 26
EXAMPLES = 10  # keys of duplicates that are reported
BYTES_PER_EDGE = 16  # the key, and its hash without the first bits
BYTES_PER_BUCKET_EDGE = 40  # also its place, and the row of the file
MOST_BUCKETS = 1024
KEYS_AT_ONCE = 1 << 20  # a thread allocates room for so many
WRITTEN_ROWS = 1 << 20  # a write opens the files of all buckets


@dataclass
class _Group:
    """Edge types between the same two node types."""

    node_types: tuple[int, int]  # the node type IDs, the smaller first
    width: int  # number of nodes of the second type: a pair is first * width + second
    edges: int = 0  # number of edges
    edge_types: list[int] = field(default_factory=list)  # the edge type IDs
    keys: dict[int, list[Keys]] = field(default_factory=dict)  # keys by edge type ID, if they are in memory


class PairGroups:
    """The edge types of a graph by the pair of node types that they join, and keys of their edges.

    Args:
        metadata: The graph's metadata.
        across_types: Treat edges of different types between the same node types as edges of the first type.

    Attributes:
        groups: The groups.

    Raises:
        InvalidInputError: Two node types have more than 2**62 pairs of nodes.
    """

    def __init__(self, metadata: GraphMetadata, *, across_types: bool = False) -> None:
        self.across_types = across_types
        self._groups: dict[tuple[int, int], _Group] = {}
        self._group_of: list[tuple[_Group, bool]] = []
        for type_id in range(len(metadata.edge_types)):
            self._add_type(metadata, type_id)
        self.groups = [*self._groups.values()]

    def group_of(self, type_id: int) -> _Group:
        """Return the group of an edge type."""
        return self._group_of[type_id][0]

    def pack(self, type_id: int, src: Ids, dst: Ids, keys: Ids) -> None:
        """Write the (n,) int64 keys of edges with (n,) int64 type-wise IDs of their ends."""
        group, backwards = self._group_of[type_id]
        pack_keys(src, dst, group.node_types[0] == group.node_types[1], group.width, backwards, keys)

    def ends(self, type_id: int, key: int) -> tuple[int, int]:
        """Return source and destination of an edge, as type-wise IDs, from its key."""
        ends = divmod(key >> 1, self.group_of(type_id).width)
        return (ends[1], ends[0]) if key & 1 else ends

    def _add_type(self, metadata: GraphMetadata, type_id: int) -> None:
        edge_type = metadata.edge_types[type_id]
        ends = metadata.node_type_id(edge_type.src), metadata.node_type_id(edge_type.dst)
        first, second = min(ends), max(ends)
        width = max(metadata.num_nodes[second], 1)
        if metadata.num_nodes[first] * width >= 2**62:
            raise InvalidInputError(
                f"The edge type {str(edge_type)!r} joins too many nodes",
                found=f"{metadata.num_nodes[first]:,} and {metadata.num_nodes[second]:,} nodes",
                expected="fewer than 2**62 pairs of a source and a destination",
                remedy="Correct the counts in metadata.json.",
            )
        group = self._groups.setdefault((first, second), _Group((first, second), width))
        if not self.across_types or not group.edge_types:
            group.edge_types.append(type_id)
        group.edges += metadata.num_edges[type_id]
        self._group_of.append((group, ends[0] > ends[1]))


class DuplicateSearch:
    """The keys of all edges. Several threads can add edges.

    Peak memory: ``memory``, and 40 bytes for each edge that has a duplicate. If the keys take more than a
    thousand times ``memory``, a thousandth of the keys.

    Args:
        metadata: The graph's metadata.
        memory: Memory limit for the keys, in bytes.
        scratch: Folder for the buckets.
        across_types: Treat edges of different types between the same node types as edges of the first type,
            and their places as homogeneous edge IDs, so that duplicates are found across types.

    Attributes:
        pairs: The edge types by the node types that they join.
        buckets: Number of parts that are searched separately.

    Raises:
        InvalidInputError: Two node types have more than 2**62 pairs of nodes.
    """

    def __init__(
        self, metadata: GraphMetadata, *, memory: int, scratch: Path, across_types: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self._scratch = Path(tempfile.mkdtemp(dir=scratch))
        self._waiting: dict[int, list[tuple[Ids, Ids]]] = {}  # edges by type until they are written
        self._most_waiting = min(WRITTEN_ROWS, memory // (BYTES_PER_BUCKET_EDGE * len(metadata.edge_types)))
        self._offsets = metadata.edge_offsets if across_types else None
        self.pairs = PairGroups(metadata, across_types=across_types)
        self.buckets = _buckets(sum(metadata.num_edges), self.pairs.groups, memory)
        self._most_room = min(KEYS_AT_ONCE, sum(metadata.num_edges)) if self.buckets == 1 else 0
        self._room_of = threading.local()
        # validation rejects a graph with more edges than its metadata says; until then, ignore the excess
        self._room = max(sum(metadata.num_edges), memory // BYTES_PER_EDGE)

    def add(self, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        """Add edges of one type.

        Args:
            type_id: Edge type ID.
            places: (n,) int64, ascending: type-wise IDs, or other numbers that identify the edges.
            src: (n,) int64, type-wise IDs of the sources.
            dst: (n,) int64, type-wise IDs of the destinations.
        """
        with self._lock:
            self._room -= len(src)
            if self._room < 0:
                return
        if self._offsets is not None:
            places = places + self._offsets[type_id]
        keys = self._new_keys(len(src))
        self.pairs.pack(type_id, src, dst, keys)
        group = self.pairs.group_of(type_id)
        type_id = group.edge_types[0] if self._offsets is not None else type_id
        if self.buckets == 1:
            with self._lock:
                consecutive = len(places) > 0 and int(places[-1] - places[0]) == len(places) - 1
                known = Keys(keys, int(places[0]) if consecutive else places)
                group.keys.setdefault(type_id, []).append(known)
            return
        with self._lock:
            waiting = self._waiting.setdefault(type_id, [])
            waiting.append((keys, places))
            if sum(len(block) for block, _ in waiting) < self._most_waiting:
                return
            del self._waiting[type_id]
        self._write(type_id, waiting)

    def _new_keys(self, count: int) -> Ids:
        """Return room for keys, from a large array of this thread: it has huge pages."""
        rest: Ids = getattr(self._room_of, "rest", np.empty(0, np.int64))
        if len(rest) < count:
            rest = np.empty(max(count, self._most_room), np.int64)
        self._room_of.rest = rest[count:]
        return rest[:count]

    def _write(self, type_id: int, blocks: list[tuple[Ids, Ids]]) -> None:
        """Append edges of one type to the files of their buckets."""
        keys, places = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        rows = np.empty((2, len(keys)), np.int64)
        bounds = np.empty(self.buckets + 1, np.int64)
        split_keys(keys, places, bounds, *rows)
        pieces = np.split(np.ascontiguousarray(rows.T), bounds[1:-1])
        with self._lock, explain_full_disk(self._scratch):
            for bucket, piece in enumerate(pieces):
                if len(piece):
                    with self._file(type_id, bucket).open("ab") as stream:
                        stream.write(piece.data)  # tofile() does not report every full disk

    def overlaps(self) -> Iterator[Overlaps]:
        """Yield the result for each group and bucket, in any order, with several threads."""
        while self._waiting:
            self._write(*self._waiting.popitem())
        largest_first = sorted(self.pairs.groups, key=lambda group: -group.edges)
        jobs = [(group, bucket) for group in largest_first for bucket in range(self.buckets)]
        return unordered_in_threads(lambda job: find_overlaps(self._load(*job)), jobs)

    def _file(self, type_id: int, bucket: int) -> Path:
        return self._scratch / f"{type_id}-{bucket}"

    def _load(self, group: _Group, bucket: int) -> dict[int, list[Keys]]:
        """Return the keys of a bucket by edge type ID, and release them here."""
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
    """Return the number of buckets: one if all keys fit into memory, else so many that one per core does."""
    if edges * BYTES_PER_EDGE <= memory:
        return 1
    most = max(group.edges for group in groups) * BYTES_PER_BUCKET_EDGE * cores()
    return min(max(-(-most // memory), 2), MOST_BUCKETS)


@compiled
def pack_keys(src: Ids, dst: Ids, one_type: bool, width: int, backwards: bool, keys: Ids) -> None:
    """Write (n,) int64 keys: the pair of nodes, the smaller node type or ID first, and the direction."""
    for i in range(len(src)):
        a, b = src[i], dst[i]
        if one_type:
            keys[i] = (min(a, b) * width + max(a, b)) * 2 + (a > b)
        elif backwards:
            keys[i] = (b * width + a) * 2 + 1
        else:
            keys[i] = (a * width + b) * 2


@compiled
def split_keys(keys: Ids, places: Ids, bounds: Ids, new_keys: Ids, new_places: Places) -> None:
    """Order keys and places by bucket; both directions of a pair of nodes go to the same one.

    Args:
        keys: (n,) int64.
        places: (n,) int64.
        bounds: (buckets + 1,) int64, output: where each bucket begins.
        new_keys: (n,) int64, output.
        new_places: (n,) int64 or uint32, output.
    """
    buckets = np.uint64(len(bounds) - 1)
    bounds[:] = 0
    for key in keys:
        bounds[unsigned(_bucket(key, buckets) + 1)] += 1
    for bucket in range(len(bounds) - 1):
        bounds[bucket + 1] += bounds[bucket]
    for i in range(len(keys)):
        bucket = unsigned(_bucket(keys[i], buckets))
        place = unsigned(bounds[bucket])
        bounds[bucket] += 1
        new_keys[place], new_places[place] = keys[i], places[i]
    for bucket in range(len(bounds) - 1, 0, -1):
        bounds[bucket] = bounds[bucket - 1]
    bounds[0] = 0


@compiled_inline
def _bucket(key: Any, buckets: Any) -> Any:
    hashed = ((np.uint64(key) >> np.uint64(1)) * MIX) >> np.uint64(40)
    return np.int64((hashed * buckets) >> np.uint64(24))


@dataclass(frozen=True)
class Keys:
    """Keys of some edges of one type."""

    values: Ids  # (n,) int64, the pair of nodes with the direction in the last bit
    # (n,) int64, place of each edge; or what reads those of some rows; or the first place, if they are
    # consecutive
    places: Ids | Callable[[Ids], Ids] | int

    def place(self, rows: Ids) -> Ids:
        """Return the places of some rows."""
        if isinstance(self.places, int):
            return rows + self.places
        return self.places(rows) if callable(self.places) else self.places[rows]


@dataclass(frozen=True)
class Repeated:
    """Duplicates: edges of one type that repeat an earlier one."""

    places: Ids  # (n,) int64, ascending places of the duplicates
    keys: Ids  # (min(n, 10),) int64, keys of the first duplicates


@dataclass(frozen=True)
class Overlaps:
    """The result of the search in one group of edge types, or in one bucket of it."""

    duplicates: dict[int, Repeated]  # duplicates by edge type ID
    parallel: int  # number of edges with the same end nodes and direction as an edge of another type
    reversed: int  # number of pairs of nodes with edges in both directions


def find_overlaps(types: Mapping[int, Sequence[Keys]]) -> Overlaps:
    """Search for equal keys.

    Args:
        types: Keys of the edges by edge type ID.

    Returns:
        The result. Peak memory: that of `find_equal_keys`, 40 bytes for each edge that has a duplicate, and
        what it takes to read places, of a type with duplicates.
    """
    found = find_equal_keys([[block.values for block in keys] for keys in types.values()])
    duplicates = {
        type_id: _repeated(keys, again)
        for (type_id, keys), again in zip(types.items(), found.repeated, strict=True)
        if len(again)
    }
    return Overlaps(duplicates, found.parallel, found.reversed)


def merge_overlaps(found: Iterable[Overlaps]) -> Overlaps:
    """Return the results of several groups or buckets as one."""
    repeated: dict[int, list[Repeated]] = {}
    parallel = both_directions = 0
    for overlaps in found:
        for type_id, again in overlaps.duplicates.items():
            repeated.setdefault(type_id, []).append(again)
        parallel += overlaps.parallel
        both_directions += overlaps.reversed
    merged = {type_id: _merged(blocks) for type_id, blocks in sorted(repeated.items())}
    return Overlaps(merged, parallel, both_directions)


def _merged(blocks: Sequence[Repeated]) -> Repeated:
    known = sorted(
        (place, key)
        for block in blocks
        for place, key in zip(block.places[: len(block.keys)].tolist(), block.keys.tolist(), strict=True)
    )
    keys = np.array([key for _, key in known[:EXAMPLES]], np.int64)
    return Repeated(np.sort(np.concatenate([block.places for block in blocks])), keys)


def _repeated(blocks: Sequence[Keys], repeated: Ids) -> Repeated:
    """Return the edges with one of some ascending keys, except the first edge of each key."""
    # a table of hashes excludes most other keys, faster than a binary search
    bits = min(max(int(16 * len(repeated)).bit_length(), 10), MOST_FILTER_BITS)
    shift, table = np.uint64(64 - bits), np.zeros(1 << bits, np.bool_)
    table[(repeated.view(np.uint64) * MIX) >> shift] = True
    first = np.full(len(repeated), np.iinfo(np.int64).max)
    found = []
    for block in blocks:
        rows = np.flatnonzero(table[(block.values.view(np.uint64) * MIX) >> shift])
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
