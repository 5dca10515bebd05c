"""The cache of the training side after its process was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from partition_ops.errors import UsageError
from partition_ops.train.cache import Cache
from tests.unit.train.test_cache import KIB, names, use


def _hang(folder: Path, begun: Any) -> None:
    def make(partial: Path) -> None:
        (partial / "content").write_bytes(b"half")
        begun.set()
        time.sleep(60)

    Cache(folder).get("a", lambda: 20 * KIB, make)


def test_who_is_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    process = context.Process(target=_hang, args=(tmp_path, begun))
    process.start()
    assert begun.wait(120)
    with pytest.raises(UsageError, match="too small"):
        use(Cache(tmp_path, limit=25 * KIB), "b")  # its room is spoken for
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    use(Cache(tmp_path, limit=25 * KIB), "b", 20 * KIB)
    assert names(tmp_path) == {"b"}
    assert use(Cache(tmp_path), "a").joinpath("content").stat().st_size == 10 * KIB
