"""Duplicate edges, found by sorting: in memory where they fit, else bucket by bucket from the disk.

Edge types whose ends have the same two node types make up a group, because only among those can an edge
of one type lie over an edge of another. The two ends of an edge are packed into one 64-bit key whose last
bit is the direction; equal keys are equal edges. Where the keys of all edges do not fit into the memory
given, each is appended to one of several files chosen by a hash of the pair, and each file is sorted by
itself: the classic external method, memory bounded by the size of a bucket.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partition_ops.errors import EngineError
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.parallel import map_in_threads

Ids = npt.NDArray[np.int64]
BYTES_PER_EDGE = 32  # key and ID, and the copies that sorting makes
MIX = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: spreads consecutive keys over all buckets


@dataclass(frozen=True)
class Overlaps:
    """What is found in one group of edge types.

    Attributes:
        duplicates: By edge type ID, ascending type-wise IDs of the edges that repeat an earlier one.
        parallel: Edges that lie over an edge of another type of the same direction.
        reversed: Pairs of nodes with edges in both directions.
    """

    duplicates: dict[int, Ids]
    parallel: int
    reversed: int


@dataclass
class _Group:
    """Edge types between the same two node types.

    Attributes:
        node_types: The two, the smaller node type ID first.
        width: Number of nodes of the second: pairs are first * width + second.
        edge_types: Their edge type IDs.
        keys: Blocks of keys and of type-wise edge IDs, by edge type, where they are in memory.
    """

    node_types: tuple[int, int]
    width: int
    edge_types: list[int] = field(default_factory=list)
    keys: dict[int, list[tuple[Ids, Ids]]] = field(default_factory=dict)


class PairStore:
    """The pairs of all edges.

    Args:
        metadata: The graph's metadata.
        memory: Bytes that the keys may take.
        scratch: Folder for buckets, used where the memory does not suffice.

    Raises:
        EngineError: Two node types have more than 2**62 pairs of nodes.
    """

    def __init__(self, metadata: GraphMetadata, *, memory: int, scratch: Path) -> None:
        self._lock = threading.Lock()
        self._scratch = Path(tempfile.mkdtemp(dir=scratch))
        needed = sum(metadata.num_edges) * BYTES_PER_EDGE
        self.buckets = 1 if needed <= memory else min(-(-needed // max(memory, 1)) * 2, 1024)
        self._groups: dict[tuple[int, int], _Group] = {}
        self._group_of: list[tuple[_Group, bool]] = []
        for type_id, edge_type in enumerate(metadata.edge_types):
            ends = metadata.node_type_id(edge_type.src), metadata.node_type_id(edge_type.dst)
            first, second = min(ends), max(ends)
            width = max(metadata.num_nodes[second], 1)
            if metadata.num_nodes[first] * width >= 2**62:
                raise EngineError(f"{edge_type} has too many pairs of nodes to look for duplicates")
            group = self._groups.setdefault((first, second), _Group((first, second), width))
            group.edge_types.append(type_id)
            self._group_of.append((group, ends[0] > ends[1]))

    def add(self, type_id: int, edge_ids: Ids, src: Ids, dst: Ids) -> None:
        """Add edges of one type.

        Args:
            type_id: Edge type ID.
            edge_ids: (n,) int64, type-wise IDs of the edges.
            src: (n,) int64, type-wise IDs of the sources.
            dst: (n,) int64, type-wise IDs of the destinations.
        """
        group, backwards = self._group_of[type_id]
        keys = _keys(src, dst, group, backwards)
        if self.buckets == 1:
            with self._lock:
                group.keys.setdefault(type_id, []).append((keys, edge_ids))
            return
        order, ends = _bucket_order(keys, self.buckets)
        rows = np.stack([keys[order], edge_ids[order]], axis=1)
        with self._lock:
            for bucket, piece in enumerate(np.split(rows, ends[:-1])):
                if len(piece):
                    with self._file(type_id, bucket).open("ab") as stream:
                        piece.tofile(stream)

    def overlaps(self) -> Iterator[Overlaps]:
        """What is found, group by group and bucket by bucket; several at a time."""
        jobs = [(group, bucket) for group in self._groups.values() for bucket in range(self.buckets)]
        return map_in_threads(lambda job: _overlaps_of(self._load(*job)), jobs)

    def _file(self, type_id: int, bucket: int) -> Path:
        return self._scratch / f"{type_id}-{bucket}"

    def _load(self, group: _Group, bucket: int) -> dict[int, tuple[Ids, Ids]]:
        """Keys and edge IDs of one bucket by edge type; they are forgotten here."""
        found = {}
        for type_id in group.edge_types:
            if self.buckets == 1:
                blocks = group.keys.pop(type_id, [])
                empty = np.empty(0, np.int64)
                found[type_id] = (
                    np.concatenate([empty, *(keys for keys, _ in blocks)]),
                    np.concatenate([empty, *(ids for _, ids in blocks)]),
                )
            elif self._file(type_id, bucket).exists():
                rows = np.fromfile(self._file(type_id, bucket), np.int64).reshape(-1, 2)
                self._file(type_id, bucket).unlink()
                found[type_id] = rows[:, 0].copy(), rows[:, 1].copy()
        return found


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


def _overlaps_of(types: dict[int, tuple[Ids, Ids]]) -> Overlaps:
    duplicates, distinct = {}, []
    for type_id, (keys, edge_ids) in types.items():
        ordered = np.sort(keys)
        again = ordered[1:] == ordered[:-1]
        if again.any():
            duplicates[type_id] = _repeated(keys, edge_ids, np.unique(ordered[1:][again]))
            ordered = np.concatenate([ordered[:1], ordered[1:][~again]])
        distinct.append(ordered)
    merged = (
        distinct[0] if len(distinct) == 1 else np.sort(np.concatenate([np.empty(0, np.int64), *distinct]))
    )
    same = merged[1:] == merged[:-1]
    directed = merged[np.concatenate([np.ones(min(len(merged), 1), bool), ~same])]
    return Overlaps(duplicates, int(same.sum()), int(((directed[1:] >> 1) == (directed[:-1] >> 1)).sum()))


def _repeated(keys: Ids, edge_ids: Ids, repeated_keys: Ids) -> Ids:
    """IDs of the edges with one of the keys, but for the first edge of each key; ascending."""
    place = np.searchsorted(repeated_keys, keys).clip(max=len(repeated_keys) - 1)
    candidates = np.flatnonzero(repeated_keys[place] == keys)
    order = candidates[np.lexsort((edge_ids[candidates], keys[candidates]))]
    later = np.concatenate([np.zeros(1, bool), keys[order][1:] == keys[order][:-1]])
    return np.sort(edge_ids[order[later]])
