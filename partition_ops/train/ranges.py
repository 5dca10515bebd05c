"""Rows of features by range requests, through a cache of blocks in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from itertools import groupby

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from partition_ops.formats.dgl.array_places import ArrayPlace
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.train.source import Ids

BLOCK_BYTES = 64 << 10
MOST_BLOCKS = 64  # in one request
REQUESTS = 16  # at the same time
CACHED_BYTES = 256 << 20

Run = tuple[int, int]


class BlockCache:
    """Blocks of stored objects, fetched by range requests; those used least recently are dropped.

    Neighbouring blocks that are missing are fetched by one request, and requests run side by side. Usable
    from several threads, and after a fork: every process has its own blocks from then on.

    Args:
        store: Where the objects are.
        limit: Bytes of blocks in memory.
        block_bytes: Size of a block: small ones fetch less that nobody asked for, big ones ask less often.

    Attributes:
        requests: Number of range requests so far.
        fetched_bytes: What they brought.
        hits: Number of blocks that were asked for and there.

    Peak memory: the limit, and what one call asks for.
    """

    def __init__(self, store: Store, *, limit: int = CACHED_BYTES, block_bytes: int = BLOCK_BYTES) -> None:
        self.store = store
        self.limit = limit
        self.block_bytes = block_bytes
        self.requests = 0
        self.fetched_bytes = 0
        self.hits = 0
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def read(self, key: str, size: int, blocks: Iterable[int]) -> dict[int, bytes]:
        """Some blocks of an object of ``size`` bytes, by number."""
        found: dict[int, bytes] = {}
        missing = []
        with self._lock:
            for block in blocks:
                data = self._blocks.get((key, block))
                if data is None:
                    missing.append(block)
                else:
                    self._blocks.move_to_end((key, block))
                    found[block] = data
            self.hits += len(found)
        runs = list(_runs(missing))
        for run, data in zip(
            runs, map_in_threads(lambda r: self._fetch(key, size, r), runs, workers=REQUESTS), strict=True
        ):
            pieces = {
                run[0] + i: data[i * self.block_bytes : (i + 1) * self.block_bytes]
                for i in range(run[1] - run[0])
            }
            found.update(pieces)
            self._keep(key, pieces, len(data))
        return found

    def _fetch(self, key: str, size: int, run: Run) -> bytes:
        return self.store.read_range(key, run[0] * self.block_bytes, min(run[1] * self.block_bytes, size))

    def _keep(self, key: str, pieces: dict[int, bytes], fetched: int) -> None:
        with self._lock:
            self.requests += 1
            self.fetched_bytes += fetched
            for block, data in pieces.items():
                self._held += len(data) - len(self._blocks.pop((key, block), b""))
                self._blocks[key, block] = data
            while self._held > self.limit and self._blocks:
                _, dropped = self._blocks.popitem(last=False)
                self._held -= len(dropped)


class RangeRows:
    """Rows of an array in a stored object.

    Args:
        cache: Fetches blocks and keeps them.
        key: The object.
        size: Its bytes.
        place: Where the array is in it.
    """

    def __init__(self, cache: BlockCache, key: str, size: int, place: ArrayPlace) -> None:
        self._cache = cache
        self._key = key
        self._size = size
        self._place = place

    def read(self, rows: Ids, places: Ids, out: npt.NDArray[np.uint8]) -> None:
        """Read some rows; see `PartRows`."""
        width, block = self._place.row_bytes, self._cache.block_bytes
        different, inverse = np.unique(rows, return_inverse=True)
        starts = self._place.offset + different * width
        first, last = starts // block, (starts + width - 1) // block
        steps = range(int((last - first).max()) + 1)
        wanted = np.unique(np.concatenate([(first + step)[first + step <= last] for step in steps]))
        found = self._cache.read(self._key, self._size, wanted.tolist())
        # blocks that a row lies across follow each other here too
        joined = np.frombuffer(b"".join(found[number] for number in wanted.tolist()), np.uint8)
        begins = np.searchsorted(wanted, first) * block + starts % block
        out[places] = sliding_window_view(joined, width)[begins][inverse]


def _runs(blocks: list[int]) -> list[Run]:
    """Half-open ranges of consecutive blocks, none longer than one request may be."""
    ordered = sorted(blocks)
    runs = []
    for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0]):
        members = [block for _, block in group]
        first, end = members[0], members[-1] + 1
        runs += [(b, min(b + MOST_BLOCKS, end)) for b in range(first, end, MOST_BLOCKS)]
    return runs
