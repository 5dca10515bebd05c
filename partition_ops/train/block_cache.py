"""Blocks of stored objects in memory, fetched by range requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from itertools import groupby

from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads

BLOCK_BYTES = 64 << 10
MOST_BLOCKS = 64  # of one request
REQUESTS = 16  # that run side by side
CACHED_BYTES = 256 << 20

Run = tuple[int, int]


class BlockCache:
    """Blocks of stored objects, fetched by range requests; the least recently used ones are dropped.

    One request fetches neighbouring blocks that are missing, and requests run side by side. Usable from
    several threads, and after a fork: from then on every process has its own blocks.

    Args:
        store: Holds the objects.
        limit: Bytes of blocks in memory.
        block_bytes: Size of a block: small blocks fetch fewer unneeded bytes, big ones need fewer requests.

    Attributes:
        requests: Number of range requests so far.
        fetched_bytes: Bytes that they fetched.
        hits: Number of blocks that were in memory when asked for.

    Peak memory: the limit, and the blocks of one call.
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
        """Return some blocks of an object of ``size`` bytes, by number."""
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


def _runs(blocks: list[int]) -> list[Run]:
    """Return half-open ranges of consecutive blocks, none longer than `MOST_BLOCKS`."""
    ordered = sorted(blocks)
    runs = []
    for _, group in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0]):
        members = [block for _, block in group]
        first, end = members[0], members[-1] + 1
        runs += [(b, min(b + MOST_BLOCKS, end)) for b in range(first, end, MOST_BLOCKS)]
    return runs
