"""The ParHIP binary graph format, which KaMinPar reads and which can be memory-mapped for METIS.

Format: three uint64 (version, number of nodes n, number of half-edges m), n+1 uint64 byte offsets into
the file, m neighbours. Version 3 means no weights and 64-bit numbers; source: the KaHIP user guide. In
version 11, neighbours have 32 bits; source: KaMinPar's parser of this format.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import Store
from partition_ops.system.memory import drop_pages

VERSION = 3
NARROW_VERSION = 11
WIDTHS = {VERSION: 8, NARROW_VERSION: 4}  # bytes of a neighbour
HEADER_WORDS = 3
WORD = 8
WORDS_AT_ONCE = 1 << 22
MOST_WIDE_EDGES = 1 << 22  # the neighbours of a larger graph have 32 bits in its file, or else 64
MOST_NARROW_NODES = 1 << 31

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ParhipGraph:
    """A symmetric graph on homogeneous IDs, without duplicates and self-loops."""

    offsets: npt.NDArray[Any]  # (n + 1,) int64 or narrower, position of the first neighbour of each node
    neighbours: npt.NDArray[Any]  # (m,) int64 or narrower, homogeneous IDs; memory-mapped by `open_parhip`

    @property
    def num_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_half_edges(self) -> int:
        return len(self.neighbours)

    @cached_property
    def narrow_neighbours(self) -> npt.NDArray[np.int32]:
        """(m,) int32, the neighbours: as they are if the file has 32 bits, else a copy in memory.

        Raises:
            UsageError: The graph has more than `MOST_NARROW_NODES`.
        """
        if self.num_nodes > MOST_NARROW_NODES:
            raise UsageError(
                "The graph has more nodes than 32 bits can number",
                found=f"{self.num_nodes:,}",
                expected=f"at most {MOST_NARROW_NODES:,}",
                remedy="Partition it with --engine parmetis or random, and without a previous run.",
            )
        if self.neighbours.dtype == np.int32:
            return np.asarray(self.neighbours)
        narrow = np.empty(len(self.neighbours), np.int32)
        for first in range(0, len(narrow), WORDS_AT_ONCE):
            narrow[first : first + WORDS_AT_ONCE] = self.neighbours[first : first + WORDS_AT_ONCE]
            drop_pages(self.neighbours)
        return narrow


def neighbour_bytes(nodes: int, edges: int) -> int:
    """Return the bytes of a neighbour in the file that ``prepare`` writes: 8 or 4."""
    return 4 if edges > MOST_WIDE_EDGES and nodes <= MOST_NARROW_NODES else 8


def header_bytes(nodes: int) -> int:
    """Return the offset of the first neighbour in a file, in bytes."""
    return (HEADER_WORDS + nodes + 1) * WORD


def write_header(stream: BinaryIO, offsets: Words, width: int = WORD) -> None:
    """Write everything before the neighbours.

    Args:
        stream: The file, at its beginning.
        offsets: (n + 1,) int64, position of the first neighbour of each node.
        width: Bytes of a neighbour, 8 or 4.
    """
    nodes = len(offsets) - 1
    version = VERSION if width == WORD else NARROW_VERSION
    stream.write(np.array([version, nodes, offsets[-1]], np.uint64).data)
    for begin in range(0, nodes + 1, WORDS_AT_ONCE):
        places = offsets[begin : begin + WORDS_AT_ONCE] * width
        places += header_bytes(nodes)
        stream.write(places.view(np.uint64).data)


def open_parhip(path: Path) -> ParhipGraph:
    """Memory-map a ParHIP file.

    Peak memory: 8 bytes per node; the neighbours stay on disk.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.
    """
    size = path.stat().st_size
    header = np.fromfile(path, np.int64, HEADER_WORDS).tolist() if size >= HEADER_WORDS * WORD else [0]
    nodes, half_edges, width = _check_header(header, str(path))
    first = header_bytes(nodes)
    if size != first + half_edges * width:
        raise InvalidInputError(
            f"{path} is truncated", found=f"{size} bytes", expected=f"{first + half_edges * width}"
        )
    offsets = np.fromfile(path, np.int64, nodes + 1, offset=HEADER_WORDS * WORD)
    offsets -= first
    offsets //= width
    if half_edges == 0:  # nothing can be mapped
        return ParhipGraph(offsets, np.zeros(0, f"i{width}"))
    return ParhipGraph(offsets, np.memmap(path, f"i{width}", mode="c", offset=first))


def _check_header(words: list[int], where: str) -> tuple[int, int, int]:
    """Return the number of nodes, the number of half-edges, and the bytes of a neighbour.

    Raises:
        InvalidInputError: The file is not a ParHIP file without weights.
    """
    if words[0] not in WIDTHS:
        raise InvalidInputError(f"{where} is not a ParHIP graph of version {VERSION} or {NARROW_VERSION}")
    return words[1], words[2], WIDTHS[words[0]]


def read_degrees(store: Store, key: str) -> Words:
    """Return the degree of every node, (nodes,) int64, without reading the neighbours.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.
    """
    nodes, _, width = _check_header(_words(store, key, 0, HEADER_WORDS).tolist(), store.uri_of(key))
    degrees: Words = np.diff(_words(store, key, HEADER_WORDS, HEADER_WORDS + nodes + 1))
    degrees //= width
    return degrees


def offset_reader(store: Store, key: str) -> tuple[int, Callable[[int], int]]:
    """Return the number of nodes, and what reads the position of a node's first neighbour, a word at a time.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.
    """
    nodes, _, width = _check_header(_words(store, key, 0, HEADER_WORDS).tolist(), store.uri_of(key))

    def offset(node: int) -> int:
        place = _words(store, key, HEADER_WORDS + node, HEADER_WORDS + node + 1)
        return (int(place[0]) - header_bytes(nodes)) // width

    return nodes, offset


def read_parhip_slice(
    store: Store, key: str, begin: int, end: int, dtype: np.dtype[Any], *, mapped: bool = False
) -> ParhipGraph:
    """Read the nodes from ``begin`` up to ``end`` and their neighbours, without the rest of the file.

    Args:
        store: Store of the file.
        key: Key of the file.
        begin: First node.
        end: End of the range of nodes.
        dtype: Integer type of the neighbours; the caller ensures that all numbers fit.
        mapped: Whether the neighbours are mapped, from a temporary file without a name.

    Returns:
        The slice: (end - begin + 1,) int64 offsets, from 0, and neighbours by their homogeneous ID.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.

    Peak memory: the slice, of which neighbours that are mapped need none, and 64 MiB.
    """
    nodes, _, width = _check_header(_words(store, key, 0, HEADER_WORDS).tolist(), store.uri_of(key))
    places = _words(store, key, HEADER_WORDS + begin, HEADER_WORDS + end + 1) - header_bytes(nodes)
    places //= width
    places -= (before := int(places[0]))
    count = int(places[-1])
    skipped = header_bytes(nodes) // width + before  # as many numbers as fit before the first neighbour

    def pieces() -> Iterator[npt.NDArray[Any]]:
        for first in range(0, count, WORDS_AT_ONCE):
            last = min(first + WORDS_AT_ONCE, count)
            yield _words(store, key, skipped + first, skipped + last, width).astype(dtype, copy=False)

    if mapped and count:
        with tempfile.TemporaryFile() as stream:
            for piece in pieces():
                stream.write(piece.data)
            stream.flush()
            return ParhipGraph(places, np.memmap(stream, dtype, "c"))
    neighbours, first = np.empty(count, dtype), 0
    for piece in pieces():
        neighbours[first : first + len(piece)] = piece
        first += len(piece)
    return ParhipGraph(places, neighbours)


def _words(store: Store, key: str, begin: int, end: int, width: int = WORD) -> npt.NDArray[Any]:
    """Read numbers of ``width`` bytes, counted from the beginning of the file."""
    words = np.frombuffer(store.read_range(key, begin * width, end * width), f"i{width}")
    if len(words) != end - begin:
        raise InvalidInputError(
            f"{store.uri_of(key)} is truncated",
            found=f"{(begin + len(words)) * width} bytes",
            expected=f"at least {end * width}",
        )
    return words
