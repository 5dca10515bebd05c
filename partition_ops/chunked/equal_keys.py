"""Search for equal keys in ranges of hashes, each with a table that fits the cache.

A *key* is a pair of nodes, with the direction of the edge in the last bit. The hash of a pair is a product
modulo a power of two by an odd number, so it stands for one pair only: its first bits are the *range*, and
the rest, with the direction, is all that the table of a range needs. Seven million keys take half of the
time of sorting them in ranges; docs/decisions/tricks.md has what that saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, compiled_inline, unsigned
from partition_ops.system.parallel import cores, map_in_threads

Ids = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
# 2**64 over the square root of 3, odd: another one than that by which `duplicate_search` chooses buckets, so
# that the keys of a bucket fill all ranges
FACTOR = 0x93CD3A2C8198E269
REST_BITS = 31  # of a hash, if there are not too many ranges; with the direction 32
OF_A_RANGE = 1 << 12  # keys
SLOTS = 4  # for each key: with half as many, wrong predictions of the processor double the time of a table
MOST_RANGE_BITS = 16
FEW_BOUNDS = 1 << 16  # of ranges and types; more than there are keys are not worth the smaller rests
MANY_RANGES = 1 << 8  # share them among threads
FREE = 0  # what untouched memory holds: a slot has the rest and one


class Hashing(NamedTuple):
    """How pairs are hashed."""

    factor: np.uint64  # odd
    inverse: np.uint64  # of the factor
    mask: np.uint64  # of the bits of a hash
    bits: int  # number of the bits of a hash
    rest: int  # number of those that are not of the range


class Dealt(NamedTuple):
    """Keys by range, and in a range by type."""

    rests: npt.NDArray[Any]  # (keys,) uint32 or uint64, what is left of the hash, with the direction behind
    bounds: Counts  # (ranges * types + 1,) int64, where those of each range and type begin
    types: int  # how many there are
    hashing: Hashing


class EqualKeys(NamedTuple):
    """What a search has found."""

    repeated: list[Ids]  # by type, ascending keys that it has more than once
    parallel: int  # number of distinct keys of all types that an earlier type has, too
    reversed: int  # number of pairs with keys in both directions, of any types


def find_equal_keys(types: Sequence[Sequence[Ids]]) -> EqualKeys:
    """Search for equal keys.

    Args:
        types: By type, arrays of (n,) int64 keys.

    Peak memory: 4 bytes a key, or 8 if the keys are large; 16 bytes for each range and type, of which there
    are no more than keys, or a MiB; for each thread 24 to 80 bytes a key of the largest range, which has many
    only if these are equal; and 8 bytes a key that is repeated.
    """
    dealt = _dealt([[array.view(np.uint64) for array in arrays] for arrays in types])
    count, ranges = dealt.types, 1 << (dealt.hashing.bits - dealt.hashing.rest)
    pieces = cores() if ranges >= MANY_RANGES else 1
    spans = pairwise(np.linspace(0, ranges, pieces + 1).astype(np.int64).tolist())
    found = np.zeros(count + 2, np.int64)
    for more in map_in_threads(lambda span: _search(dealt, *span), spans):
        found += more
    again = np.empty(int(found[:count].sum()), np.int64)
    begins = np.cumsum([0, *found[:count].tolist()])
    if len(again):
        _search(dealt, 0, ranges, again, begins[:-1].copy())
    repeated = [np.unique(again[begin:end]) for begin, end in pairwise(begins.tolist())]
    return EqualKeys(repeated[: len(types)], int(found[count]), int(found[count + 1]))


def hashing_of(largest: int, count: int, width: int) -> Hashing:
    """Return how to hash so many keys of some types, given the largest key."""
    bits = max(largest.bit_length() - 1, 1)
    of_count = min((count // OF_A_RANGE).bit_length(), MOST_RANGE_BITS, bits)
    of_range = max(bits - REST_BITS, of_count)
    if of_range > MOST_RANGE_BITS or width << of_range > max(count, FEW_BOUNDS):
        of_range = of_count
    factor = (FACTOR >> (64 - bits)) | 1
    inverse, mask = pow(factor, -1, 1 << bits), (1 << bits) - 1
    return Hashing(np.uint64(factor), np.uint64(inverse), np.uint64(mask), bits, bits - of_range)


def _dealt(types: Sequence[Sequence[Keys]]) -> Dealt:
    """Deal the keys of each type to ranges."""
    arrays = [array for of_type in types for array in of_type]
    count, width = sum(map(len, arrays)), max(len(types), 1)
    largest = int(max((array.max() for array in arrays if len(array)), default=0))
    hashing = hashing_of(largest, count, width)
    bounds = np.zeros((1 << (hashing.bits - hashing.rest)) * width + 1, np.int64)
    for number, of_type in enumerate(types):
        for array in of_type:
            _count(array, hashing, width, bounds[1 + number :])
    np.cumsum(bounds, out=bounds)
    rests = np.empty(count, np.uint32 if hashing.rest <= REST_BITS else np.uint64)
    places = bounds[:-1].copy()
    for number, of_type in enumerate(types):
        for array in of_type:
            _deal(array, hashing, width, places[number:], rests)
    return Dealt(rests, bounds, width, hashing)


def _search(
    dealt: Dealt, first: int, last: int, again: Ids | None = None, places: Counts | None = None
) -> Counts:
    """Search some ranges; return `EqualKeys` as counts: of keys again by type, parallel, and reversed.

    Args:
        dealt: The keys.
        first: The first range.
        last: The end of the ranges.
        again: (n,) int64, output: the keys that are there again, by type; None to count them.
        places: (types,) int64, where those of each type begin in it; changed.
    """
    sizes = np.diff(dealt.bounds[first * dealt.types : last * dealt.types + 1 : dealt.types])
    slots = 1 << min((SLOTS * int(sizes.max(initial=0))).bit_length(), dealt.hashing.rest)
    table = np.empty(slots, dealt.rests.dtype)
    stamps = np.empty(2 * slots, np.min_scalar_type(dealt.types))
    found = np.zeros(dealt.types + 2, np.int64)
    if again is None or places is None:
        again, places = np.empty(0, np.int64), np.zeros(dealt.types, np.int64)
    _search_ranges(dealt, first, last, table, stamps, found, again, places)
    return found


@compiled_inline
def _hash(key: Any, hashing: Hashing) -> Any:
    """Return the hash of the pair of a key."""
    return ((key >> np.uint64(1)) * hashing.factor) & hashing.mask


@compiled
def _count(keys: Keys, hashing: Hashing, width: int, counts: Counts) -> None:
    """Count the keys of each range; the counts of a type are ``width`` apart."""
    shift, step = np.uint64(hashing.rest), np.uint64(width)
    for key in keys:
        counts[(_hash(key, hashing) >> shift) * step] += 1


@compiled
def _deal(keys: Keys, hashing: Hashing, width: int, places: Counts, rests: npt.NDArray[Any]) -> None:
    """Write the rest of each hash, with the direction, to the next place of its range."""
    shift, step = np.uint64(hashing.rest), np.uint64(width)
    last = (np.uint64(1) << shift) - np.uint64(1)
    for key in keys:
        hashed = _hash(key, hashing)
        at = (hashed >> shift) * step
        rests[unsigned(places[at])] = ((hashed & last) << np.uint64(1)) | (key & np.uint64(1))
        places[at] += 1


@compiled
def _search_ranges(
    dealt: Dealt,
    first: int,
    last: int,
    table: npt.NDArray[Any],
    stamps: npt.NDArray[Any],
    found: Counts,
    again: Ids,
    places: Counts,
) -> None:
    """See `_search`; ``table`` and ``stamps`` are scratch.

    A slot of the table has a pair, and the stamps of its two directions the last type that has it, from 1.
    """
    rests, bounds, width, hashing = dealt.rests, dealt.bounds, dealt.types, dealt.hashing
    for number in range(first, last):
        size = bounds[(number + 1) * width] - bounds[number * width]
        bits = 0
        while bits < hashing.rest and (1 << bits) < SLOTS * size:
            bits += 1
        end = np.uint64(1 << bits)
        shift, mask = np.uint64(hashing.rest - bits), end - np.uint64(1)
        table[:end] = FREE
        for kind in range(width):
            for i in range(bounds[number * width + kind], bounds[number * width + kind + 1]):
                value = np.uint64(rests[unsigned(i)])
                rest = value >> np.uint64(1)
                slot = rest >> shift
                while table[slot] != FREE and np.uint64(table[slot]) != rest + np.uint64(1):
                    slot = (slot + np.uint64(1)) & mask
                place = np.uint64(2) * slot + (value & np.uint64(1))
                if table[slot] == FREE:
                    table[slot] = rest + np.uint64(1)
                    stamps[place], stamps[place ^ np.uint64(1)] = kind + 1, 0
                    continue
                if stamps[place] == kind + 1:
                    found[kind] += 1
                    if len(again):
                        hashed = (np.uint64(number) << np.uint64(hashing.rest)) | rest
                        pair = (hashed * hashing.inverse) & hashing.mask
                        again[places[kind]] = np.int64((pair << np.uint64(1)) | (value & np.uint64(1)))
                        places[kind] += 1
                    continue
                if stamps[place] != 0:
                    found[width] += 1
                elif stamps[place ^ np.uint64(1)] != 0:
                    found[width + 1] += 1
                stamps[place] = kind + 1
