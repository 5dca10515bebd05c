"""Edges that lie over one another, found in the keys of one group of edge types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


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
class Overlaps:
    """What is found in one group of edge types.

    Attributes:
        duplicates: By edge type ID, ascending places of the edges that repeat an earlier one.
        parallel: Edges that lie over an edge of another type of the same direction.
        reversed: Pairs of nodes with edges in both directions.
    """

    duplicates: dict[int, Ids]
    parallel: int
    reversed: int


def find_overlaps(types: Mapping[int, Sequence[Keys]]) -> Overlaps:
    """Look for equal keys.

    Args:
        types: By edge type ID, the keys of its edges.

    Returns:
        The findings. Peak memory: the keys once more, and 16 bytes for each edge that has a duplicate.
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


def _repeated(blocks: Sequence[Keys], repeated: Ids) -> Ids:
    """Places of the edges with one of the keys, but for the first edge of each key; ascending."""
    first = np.full(len(repeated), np.iinfo(np.int64).max)
    found = []
    for block in blocks:
        index = np.searchsorted(repeated, block.values).clip(max=len(repeated) - 1)
        rows = np.flatnonzero(repeated[index] == block.values)
        index, places = index[rows], block.place(rows)
        np.minimum.at(first, index, places)
        found.append((index, places))
    later = [places[places != first[index]] for index, places in found]
    return _sorted(later)
