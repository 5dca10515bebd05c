"""Finding the edges of one type that are there more than once, without holding them all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError

Ids = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
BUCKET_EDGES = 1 << 23
MOST_BUCKET_BITS = 8
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Fibonacci hashing, Knuth vol. 3, 6.4


def edge_keys(src: Ids, dst: Ids, *, sources: int, destinations: int) -> Keys:
    """One number for each pair of type-wise IDs, the same for the same pair only.

    Args:
        src: (n,) int64, type-wise.
        dst: (n,) int64, type-wise.
        sources: Number of nodes of the source type.
        destinations: Number of nodes of the destination type.

    Returns:
        (n,) uint64.

    Raises:
        InvalidInputError: The pairs of the two types do not fit 64 bits.
    """
    if sources * destinations >= 2**64:
        raise InvalidInputError(
            "The node types of an edge type are too large to look for duplicates",
            found=f"{sources} and {destinations} nodes",
            expected="a product below 2**64",
        )
    return src.astype(np.uint64) * np.uint64(destinations) + dst.astype(np.uint64)


class RepeatedEdges:
    """The keys that occur more than once, and which of them have been seen.

    Args:
        blocks: Keys of all edges of the type, (n,) uint64 each.
        count: How many there are.

    Peak memory: 64 MiB times 2 up to 2**31 edges, and 17 bytes a key that occurs more than once. The keys,
    8 bytes an edge, go through temporary files (below ``TMPDIR``).
    """

    def __init__(self, blocks: Iterable[Keys], count: int) -> None:
        self._keys = _repeated(blocks, count)
        self._seen = np.zeros(len(self._keys), np.bool_)

    def first_time(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """(n,) bool, whether each key has not occurred before, here or in an earlier call."""
        new = np.ones(len(keys), np.bool_)
        if len(self._keys) == 0:
            return new
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        rows = np.flatnonzero(self._keys[at] == keys)
        which = at[rows]
        earliest = np.zeros(len(rows), np.bool_)
        earliest[np.unique(which, return_index=True)[1]] = True
        new[rows] = earliest & ~self._seen[which]
        self._seen[which] = True
        return new


def _repeated(blocks: Iterable[Keys], count: int) -> Keys:
    """(n,) uint64, the keys that occur more than once, ascending."""
    bits = min(MOST_BUCKET_BITS, max(0, (count - 1) // BUCKET_EDGES).bit_length())
    found = []
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1 << bits)]
        for keys in blocks:
            for file, bucket in zip(files, _split(keys, bits), strict=True):
                bucket.tofile(file)
        for file in files:
            file.seek(0)
            keys = np.fromfile(file, np.uint64)
            keys.sort()
            found.append(np.unique(keys[1:][keys[1:] == keys[:-1]]))
    repeated = np.concatenate(found)
    repeated.sort()
    return repeated


def _split(keys: Keys, bits: int) -> list[Keys]:
    if bits == 0:
        return [keys]
    buckets = ((keys * SPREAD) >> np.uint64(64 - bits)).astype(np.uint16)
    order = np.argsort(buckets, kind="stable")
    return np.split(keys[order], np.cumsum(np.bincount(buckets, minlength=1 << bits))[:-1])
