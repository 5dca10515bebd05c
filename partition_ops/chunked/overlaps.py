"""Edges that lie over one another, found in the keys of one group of edge types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
MIX = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: spreads consecutive keys over all hashes
MOST_FILTER_BITS = 26
EXAMPLES = 10  # edges of which the keys are told


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
