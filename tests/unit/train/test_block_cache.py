"""Blocks of stored objects in memory: below the limit, the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition_ops.formats.columns import StoredArray
from partition_ops.storage import Store, open_store
from partition_ops.train.cache import MOST_BLOCKS, BlockCache
from partition_ops.train.features import RangeRows

BLOCK, BLOCKS = 16, 30
SIZE = BLOCK * BLOCKS - 5  # the last block is not whole
CONTENT = {key: np.random.default_rng(i).bytes(SIZE) for i, key in enumerate(("one", "two"))}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(str(tmp_path_factory.mktemp("blocks"))) as made:
        for key, data in CONTENT.items():
            made.write_bytes(key, data)
        yield made


def piece(key: str, block: int) -> bytes:
    return CONTENT[key][block * BLOCK : (block + 1) * BLOCK]


class Model:
    """Least recently used, block by block, of whole pieces."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self.hits = 0
        self.fetched = 0

    def read(self, key: str, blocks: list[int]) -> None:
        there = [block for block in blocks if (key, block) in self.held]
        for block in there:
            self.held.move_to_end((key, block))
        self.hits += len(there)
        for block in (b for b in blocks if b not in there):
            self.held[key, block] = piece(key, block)
            self.fetched += len(piece(key, block))
            while sum(map(len, self.held.values())) > self.limit:
                self.held.popitem(last=False)


READS = st.lists(
    st.tuples(
        st.sampled_from(sorted(CONTENT)),
        st.lists(st.integers(0, BLOCKS - 1), min_size=1, max_size=8, unique=True).map(sorted),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=READS, limit=st.integers(0, 12).map(lambda blocks: blocks * BLOCK))
def test_it_gives_the_content_and_keeps_what_was_used_last(
    store: Store, reads: list[tuple[str, list[int]]], limit: int
) -> None:
    cache, model = BlockCache(store, limit=limit, block_bytes=BLOCK), Model(limit)
    for key, blocks in reads:
        found = cache.read(key, SIZE, blocks)
        assert found == {block: piece(key, block) for block in blocks}
        model.read(key, blocks)
        assert (cache.hits, cache.fetched_bytes) == (model.hits, model.fetched)


def test_what_was_dropped_is_fetched_again(store: Store) -> None:
    cache = BlockCache(store, limit=2 * BLOCK, block_bytes=BLOCK)
    for block in (0, 1, 0, 2):  # 1 goes: 0 was used after it
        cache.read("one", SIZE, [block])
    assert (cache.hits, cache.requests) == (1, 3)
    cache.read("one", SIZE, [0])
    assert (cache.hits, cache.requests) == (2, 3)
    cache.read("one", SIZE, [1])
    assert (cache.hits, cache.requests) == (2, 4)


def test_neighbouring_blocks_come_in_one_request(store: Store) -> None:
    cache = BlockCache(store, block_bytes=BLOCK)
    cache.read("one", SIZE, [3, 4, 5, 9])
    assert (cache.requests, cache.fetched_bytes) == (2, 4 * BLOCK)
    cache.read("one", SIZE, [2, 3, 4, 5, 6])
    assert (cache.requests, cache.hits) == (4, 3)
    small = BlockCache(store, block_bytes=2)
    small.read("two", SIZE, range(2 * MOST_BLOCKS + 1))
    assert small.requests == 3


@given(
    rows=st.lists(st.integers(0, 18), max_size=30),
    width=st.integers(1, 24),
    offset=st.integers(0, 7),
    block=st.integers(1, 40),
    limit=st.sampled_from([0, 50, 10_000]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_of_the_file(
    store: Store, rows: list[int], width: int, offset: int, block: int, limit: int
) -> None:
    """Rows of any width are read, also across blocks, in any order and again."""
    array = StoredArray("one", offset, np.dtype(np.uint8), (19, width))
    expected = np.frombuffer(CONTENT["one"], np.uint8)[offset : offset + 19 * width].reshape(19, width)
    out = np.zeros((len(rows), width), np.uint8)
    if rows:
        cache = BlockCache(store, limit=limit, block_bytes=block)
        RangeRows(cache, SIZE, array).read(np.array(rows), np.arange(len(rows)), out)
    assert np.array_equal(out, expected[rows])
