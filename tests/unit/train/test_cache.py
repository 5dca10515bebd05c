"""The cache of the training side: whole entries, below a limit, and never one that is in use."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from partition_ops.errors import StorageError, UsageError
from partition_ops.train.cache import Cache

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
