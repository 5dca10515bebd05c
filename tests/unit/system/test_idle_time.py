"""Work that is done while this process waits for a child."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from partition_ops.system import parallel
from partition_ops.system.parallel import in_idle_time, use_idle_time


def test_work_begins_once_when_there_is_idle_time() -> None:
    done = threading.Semaphore(0)
    with in_idle_time(done.release):
        assert not done.acquire(blocking=False)
        use_idle_time()
        assert done.acquire(timeout=30)
        use_idle_time()
    assert not done.acquire(timeout=0.05)


def test_work_is_forgotten_if_there_was_no_idle_time() -> None:
    done = threading.Event()
    with in_idle_time(done.set):
        pass
    use_idle_time()
    assert not done.wait(0.05)


def test_several_threads_may_find_idle_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if both look whether work is left before either takes it."""

    class Switching(list[Callable[[], object]]):
        def __bool__(self) -> bool:
            found = len(self) > 0
            both.wait(timeout=30)
            return found

    both, done = threading.Barrier(2), threading.Semaphore(0)
    monkeypatch.setattr(parallel, "_for_idle_time", Switching([done.release]))
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(use_idle_time) for _ in range(2)]:
            job.result()
    assert done.acquire(timeout=30)
