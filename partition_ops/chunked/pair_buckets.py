"""Keys of edges between tasks: `PairWriter` splits them by range of hashes, `PairReader` reads a range.

A *range* is some buckets of the hash of the pair of nodes. There is an object for each range. It has a piece
of each segment: the keys of its buckets, int64, and then their places, counted from the first of the segment,
uint32. A *segment* has edges of one type.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import Keys, PairGroups, split_keys
from partition_ops.system.array_io import read_at

Ids = npt.NDArray[np.int64]
SEGMENT_EDGES = 1 << 18
PLACES = 1 << 32  # of a segment
KEY_BYTES, PLACE_BYTES = 8, 4


@dataclass
class _Segment:
    """A segment that a thread fills: its type, its first place, and keys and places of ``count`` edges."""

    keys: Ids
    places: Ids
    type_id: int = 0
    count: int = 0


@dataclass
class PairWriter:
    """Writes the keys of edges; usable from several threads, of which each adds all edges of a file in turn.

    Temporary files collect segments in the order in which threads fill them. `copy` writes them in the order
    of their edges, so that its output depends on the edges alone.

    Peak memory: 28 bytes for each edge of a segment, for each thread.
    """

    pairs: PairGroups  # the edge types by the node types that they join
    streams: Sequence[BinaryIO]  # a temporary file for each range, open for writing and reading
    buckets: int  # number of buckets of each range
    _segments: list[tuple[list[int], list[int]]] = field(default_factory=list)  # and where their pieces begin
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: dict[int, _Segment] = field(default_factory=dict)

    def add(self, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        """Add edges of one type.

        Args:
            type_id: Edge type ID.
            places: (n,) int64, ascending numbers that identify the edges.
            src: (n,) int64, type-wise IDs of the sources.
            dst: (n,) int64, type-wise IDs of the destinations.
        """
        with self._lock:
            held = self._held.get(threading.get_ident())
            if held is None:
                held = _Segment(np.empty(SEGMENT_EDGES, np.int64), np.empty(SEGMENT_EDGES, np.int64))
                self._held[threading.get_ident()] = held
        for begin in range(0, len(src), SEGMENT_EDGES):
            block = slice(begin, begin + SEGMENT_EDGES)
            self._add(held, type_id, places[block], src[block], dst[block])

    def _add(self, held: _Segment, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        if places[-1] - places[0] >= PLACES:  # billions of wrong rows between them
            for part in (slice(None, len(src) // 2), slice(len(src) // 2, None)):
                self._add(held, type_id, places[part], src[part], dst[part])
            return
        if held.count and (
            held.type_id != type_id
            or held.count + len(src) > SEGMENT_EDGES
            or not 0 <= places[-1] - held.places[0] < PLACES
        ):
            self._write(held)
        held.type_id = type_id
        added = slice(held.count, held.count + len(src))
        self.pairs.pack(type_id, src, dst, held.keys[added])
        held.places[added] = places
        held.count += len(src)

    def _write(self, held: _Segment) -> None:
        keys, places = held.keys[: held.count], held.places[: held.count]
        first = int(places[0])
        places -= first
        bounds = np.empty(len(self.streams) * self.buckets + 1, np.int64)
        new_keys, new_places = np.empty(held.count, np.int64), np.empty(held.count, np.uint32)
        split_keys(keys, places, bounds, new_keys, new_places)
        with self._lock:
            begins = [stream.tell() for stream in self.streams]
            for number, stream in enumerate(self.streams):
                begin, end = bounds[[number * self.buckets, (number + 1) * self.buckets]]
                stream.write(new_keys[begin:end].data)
                stream.write(new_places[begin:end].data)
            self._segments.append(([held.type_id, first, *np.diff(bounds).tolist()], begins))
        held.count = 0

    def finish(self) -> Ids:
        """Take what is held; return (segments, 2 + buckets) int64, the index for `PairReader`.

        A row has the type, the first place, and the number of edges in each bucket of all ranges.
        """
        for held in self._held.values():
            if held.count:
                self._write(held)
        self._held.clear()
        self._segments.sort()
        width = 2 + len(self.streams) * self.buckets
        return np.array([row for row, _ in self._segments], np.int64).reshape(-1, width)

    def copy(self, number: int, target: BinaryIO) -> None:
        """Write the pieces of a range to a file, after `finish`."""
        first = 2 + number * self.buckets
        for row, begins in self._segments:
            self.streams[number].seek(begins[number])
            size = sum(row[first : first + self.buckets]) * (KEY_BYTES + PLACE_BYTES)
            target.write(self.streams[number].read(size))


@dataclass(frozen=True)
class _Segments:
    """The pieces of a range in one object, in order."""

    path: Path  # local copy of the object
    types: Ids  # (segments,) int64, the edge type of each
    firsts: Ids  # (segments,) int64, its first place
    begins: Ids  # (segments,) int64, its first byte
    ends: npt.NDArray[np.uint32]  # (segments, buckets + 1), its number of edges before each bucket

    def pieces(self, bucket: int, type_id: int) -> _Pieces:
        """Return where the edges of a type in a bucket are."""
        before, after = self.ends[:, bucket].astype(np.int64), self.ends[:, bucket + 1].astype(np.int64)
        some = np.flatnonzero((self.types == type_id) & (after > before))
        begins, before = self.begins[some], before[some]
        places = begins + self.ends[some, -1].astype(np.int64) * KEY_BYTES + before * PLACE_BYTES
        return _Pieces(
            self.path, begins + before * KEY_BYTES, places, after[some] - before, self.firsts[some]
        )


class _Pieces(NamedTuple):
    """Pieces of an object, each an entry: of keys, and of their places."""

    path: Path
    keys: Ids  # first byte of the keys
    places: Ids  # first byte of their places
    counts: Ids  # number of keys
    firsts: Ids  # first place of the segment


class PairReader:
    """Reads the keys of one range.

    Args:
        number: Number of the range.
        ranges: Number of ranges.
        files: For each writer, its index and the local copy of its object of this range.

    Attributes:
        buckets: Number of buckets of the range.
        sizes: For each writer, the bytes of its keys and places.
        edges: Number of edges.
        largest_bucket: Number of edges of the largest bucket.
    """

    def __init__(self, number: int, ranges: int, files: Sequence[tuple[Ids, Path]]) -> None:
        self._files = []
        self.sizes = []
        buckets: Ids = np.zeros(1, np.int64)
        for index, path in files:
            self.buckets = (index.shape[1] - 2) // ranges
            counts = index[:, 2 + number * self.buckets : 2 + (number + 1) * self.buckets]
            ends = np.zeros((len(index), self.buckets + 1), np.uint32)
            np.cumsum(counts, axis=1, out=ends[:, 1:])
            begins = np.cumsum([0, *ends[:, -1].tolist()]) * (KEY_BYTES + PLACE_BYTES)
            types, firsts = index[:, 0].copy(), index[:, 1].copy()
            self._files.append(_Segments(path, types, firsts, begins[:-1], ends))
            self.sizes.append(int(begins[-1]))
            buckets = buckets + counts.sum(axis=0)
        self.edges, self.largest_bucket = int(buckets.sum()), int(buckets.max())

    def read(self, bucket: int, type_ids: Sequence[int]) -> dict[int, list[Keys]]:
        """Return the keys of the edges of some types in a bucket, 8 bytes each.

        Their places are read when they are asked for, which is only where keys are equal.
        """
        found = {}
        for type_id in type_ids:
            pieces = [
                one for one in (file.pieces(bucket, type_id) for file in self._files) if len(one.counts)
            ]
            if pieces:
                keys = _read(np.int64, [(one.path, one.keys, one.counts) for one in pieces])
                found[type_id] = [Keys(keys, partial(_places, pieces))]
        return found


def _places(pieces: Sequence[_Pieces], rows: Ids) -> Ids:
    """Return (n,) int64, the places of some of the keys of pieces; 4 bytes for each of all keys."""
    places = _read(np.uint32, [(one.path, one.places, one.counts) for one in pieces])
    firsts = np.concatenate([one.firsts for one in pieces])
    ends = np.cumsum(np.concatenate([one.counts for one in pieces]))
    found: Ids = places[rows] + firsts[np.searchsorted(ends, rows, "right")]
    return found


def _read(dtype: npt.DTypeLike, files: Sequence[tuple[Path, Ids, Ids]]) -> npt.NDArray[Any]:
    """Return the numbers of pieces end to end; each file has its pieces' first bytes and their counts."""
    found = np.empty(sum(int(counts.sum()) for _, _, counts in files), dtype)
    at = 0
    for path, begins, counts in files:
        with path.open("rb", buffering=0) as stream:
            for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
                read_at(stream.fileno(), found[at : at + count], begin)
                at += count
    return found
