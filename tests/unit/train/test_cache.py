"""The caches: folders that appear whole, below a limit, and stay while in use; and blocks in memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition_ops.errors import StorageError, UsageError
from partition_ops.formats.columns import StoredArray
from partition_ops.storage import Store, open_store
from partition_ops.train.cache import MOST_BLOCKS, BlockCache, Cache
from partition_ops.train.features import RangeRows

KIB = 1024


def write(size: int) -> Any:
    return lambda folder: (folder / "content").write_bytes(bytes(size))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def use(cache: Cache, name: str, size: int = 10 * KIB) -> Path:
    entry = cache.get(name, lambda: size, write(size))
    entry.close()
    return entry.folder


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    made = []
    cache = Cache(tmp_path)
    for _ in range(2):
        entry = cache.get("one", lambda: KIB, lambda folder: made.append(folder))
        assert entry.folder == tmp_path / "one"
        entry.close()
    assert len(made) == 1


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=35 * KIB)
    for name in ("a", "b", "c"):
        use(cache, name)
        time.sleep(0.02)
    use(cache, "a")
    use(cache, "d")
    assert names(tmp_path) == {"a", "c", "d"}
    assert sum(p.stat().st_size for p in tmp_path.rglob("content")) <= cache.limit


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=35 * KIB)
    held = [cache.get(name, lambda: 10 * KIB, write(10 * KIB)) for name in ("a", "b", "c")]
    with pytest.raises(UsageError, match=r"too small.*30,720 of them in use.*10,240 bytes more"):
        use(cache, "d")
    assert names(tmp_path) == {"a", "b", "c"}
    held[1].close()
    use(cache, "d")
    assert names(tmp_path) == {"a", "c", "d"}


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "content").write_bytes(b"half")
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        Cache(tmp_path).get("a", lambda: KIB, fail)
    assert names(tmp_path) == set()
    use(Cache(tmp_path), "a")
    assert names(tmp_path) == {"a"}


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=rf"The cache {tmp_path / folder} cannot be written"):
        use(Cache(tmp_path / folder), "a")


def test_two_who_want_the_same_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        time.sleep(0.2)
        write(KIB)(folder)
        made.append(folder)

    entries: list[Any] = []

    def get() -> None:
        entries.append(Cache(tmp_path).get("a", lambda: KIB, make))

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)  # all four hold it now: nobody may wait for the others to let go
    assert len(entries) == 4
    assert len(made) == 1
    for entry in entries:
        entry.close()


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
