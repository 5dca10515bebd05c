"""The ParHIP binary graph format, which KaMinPar reads and which can be memory-mapped for METIS.

Format: three uint64 (version, number of nodes n, number of half-edges m), n+1 uint64 byte offsets into
the file, m uint64 neighbours. Version 3 means no weights and 64-bit numbers. Source: the KaHIP user guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

VERSION = 3
HEADER_WORDS = 3
WORD = 8
WORDS_AT_ONCE = 1 << 22

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ParhipGraph:
    """A symmetric graph on homogeneous IDs, without duplicates and self-loops.

    Attributes:
        offsets: (n + 1,) int64 or narrower, position of the first neighbour of each node.
        neighbours: (m,) int64 or narrower, homogeneous IDs; memory-mapped by `open_parhip`.
    """

    offsets: npt.NDArray[Any]
    neighbours: npt.NDArray[Any]

    @property
    def num_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_half_edges(self) -> int:
        return len(self.neighbours)


def header_bytes(nodes: int) -> int:
    """Return the offset of the first neighbour in a file, in bytes."""
    return (HEADER_WORDS + nodes + 1) * WORD


def write_header(stream: BinaryIO, offsets: Words) -> None:
    """Write everything before the neighbours.

    Args:
        stream: The file, at its beginning.
        offsets: (n + 1,) int64, position of the first neighbour of each node.
    """
    nodes = len(offsets) - 1
    stream.write(np.array([VERSION, nodes, offsets[-1]], np.uint64).data)
    places = offsets * WORD
    places += header_bytes(nodes)
    stream.write(places.view(np.uint64).data)


def open_parhip(path: Path) -> ParhipGraph:
    """Memory-map a ParHIP file of version 3.

    Peak memory: 8 bytes per node; the neighbours stay on disk.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.
    """
    empty = path.stat().st_size < HEADER_WORDS * WORD
    words: Words = np.zeros(1, np.int64) if empty else np.memmap(path, np.int64, mode="c")
    if words[0] != VERSION:
        raise InvalidInputError(f"{path} is not a ParHIP graph of version {VERSION}")
    nodes, half_edges = int(words[1]), int(words[2])
    first = HEADER_WORDS + nodes + 1
    if len(words) != first + half_edges:
        raise InvalidInputError(
            f"{path} is truncated", found=f"{len(words)} words", expected=f"{first + half_edges}"
        )
    offsets = (np.asarray(words[HEADER_WORDS:first]) - first * WORD) // WORD
    return ParhipGraph(offsets, np.asarray(words[first:]))


def read_degrees(store: Store, key: str) -> Words:
    """Return the degree of every node, (nodes,) int64, without reading the neighbours.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.
    """
    version, nodes, _ = _words(store, key, 0, HEADER_WORDS).tolist()
    if version != VERSION:
        raise InvalidInputError(f"{store.uri_of(key)} is not a ParHIP graph of version {VERSION}")
    degrees: Words = np.diff(_words(store, key, HEADER_WORDS, HEADER_WORDS + nodes + 1)) // WORD
    return degrees


def read_parhip_slice(store: Store, key: str, begin: int, end: int, dtype: np.dtype[Any]) -> ParhipGraph:
    """Read the nodes from ``begin`` up to ``end`` and their neighbours, without the rest of the file.

    Args:
        store: Store of the file.
        key: Key of the file.
        begin: First node.
        end: End of the range of nodes.
        dtype: Integer type of the result; the caller ensures that all numbers fit.

    Returns:
        The slice: (end - begin + 1,) offsets, from 0, and neighbours by their homogeneous ID.

    Raises:
        InvalidInputError: The file is not a ParHIP file, or is truncated.

    Peak memory: the slice, and 64 MiB.
    """
    header = _words(store, key, 0, HEADER_WORDS)
    if header[0] != VERSION:
        raise InvalidInputError(f"{store.uri_of(key)} is not a ParHIP graph of version {VERSION}")
    places = _words(store, key, HEADER_WORDS + begin, HEADER_WORDS + end + 1) // WORD
    neighbours = np.empty(int(places[-1] - places[0]), dtype)
    for first in range(int(places[0]), int(places[-1]), WORDS_AT_ONCE):
        last = min(first + WORDS_AT_ONCE, int(places[-1]))
        neighbours[first - places[0] : last - places[0]] = _words(store, key, first, last)
    return ParhipGraph((places - places[0]).astype(dtype), neighbours)


def _words(store: Store, key: str, begin: int, end: int) -> Words:
    words = np.frombuffer(store.read_range(key, begin * WORD, end * WORD), np.int64)
    if len(words) != end - begin:
        raise InvalidInputError(
            f"{store.uri_of(key)} is truncated",
            found=f"{begin + len(words)} words",
            expected=f"at least {end}",
        )
    return words
