"""The ParHIP binary graph format, which KaMinPar reads as it is and which METIS can map.

Format: three uint64 (version, number of nodes n, number of half-edges m), n+1 uint64 byte offsets into
the file, m uint64 neighbours. Version 3: no weights, 64 bits everywhere. Source: the KaHIP user guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError

VERSION = 3
HEADER_WORDS = 3
WORD = 8

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ParhipGraph:
    """A symmetric graph on homogeneous IDs, without duplicates and self-loops.

    Attributes:
        offsets: (n + 1,) int64, where the neighbours of each node begin.
        neighbours: (m,) int64, mapped from the file.
    """

    offsets: Words
    neighbours: Words

    @property
    def num_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_half_edges(self) -> int:
        return len(self.neighbours)


def write_header(stream: BinaryIO, offsets: Words) -> None:
    """Write everything before the neighbours.

    Args:
        stream: At its beginning.
        offsets: (n + 1,) int64, counted in neighbours.
    """
    nodes = len(offsets) - 1
    first = (HEADER_WORDS + nodes + 1) * WORD
    np.array([VERSION, nodes, offsets[-1]], np.uint64).tofile(stream)
    (offsets * WORD + first).astype(np.uint64).tofile(stream)


def open_parhip(path: Path) -> ParhipGraph:
    """Map a ParHIP file of version 3.

    Peak memory: 8 bytes a node; the neighbours stay on the disk.

    Raises:
        InvalidInputError: The file is none, or is cut short.
    """
    empty = path.stat().st_size < HEADER_WORDS * WORD
    words: Words = np.zeros(1, np.int64) if empty else np.memmap(path, np.int64, mode="c")
    if words[0] != VERSION:
        raise InvalidInputError(f"{path} is not a ParHIP graph of version {VERSION}")
    nodes, half_edges = int(words[1]), int(words[2])
    first = HEADER_WORDS + nodes + 1
    if len(words) != first + half_edges:
        raise InvalidInputError(
            f"{path} is not whole", found=f"{len(words)} words", expected=f"{first + half_edges}"
        )
    offsets = (np.asarray(words[HEADER_WORDS:first]) - first * WORD) // WORD
    return ParhipGraph(offsets, np.asarray(words[first:]))
