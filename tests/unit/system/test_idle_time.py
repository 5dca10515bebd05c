"""Work that is done while this process waits for a child."""

from __future__ import annotations

import threading

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
