"""Work in threads: every result once, errors immediately, and no new items after an error."""

from __future__ import annotations

import threading

import pytest

from partition_ops.system.parallel import begin_in_thread, map_in_threads, unordered_in_threads


def test_results_come_in_order_or_as_they_are_ready() -> None:
    assert list(map_in_threads(lambda item: item * 2, range(50), workers=3)) == list(range(0, 100, 2))
    assert sorted(unordered_in_threads(lambda item: item * 2, range(50))) == list(range(0, 100, 2))


def test_work_that_has_begun_gives_its_result_or_its_error() -> None:
    go_on = threading.Event()
    result = begin_in_thread(lambda: go_on.wait(120))
    go_on.set()
    assert result.result() is True and result.result() is True
    with pytest.raises(ZeroDivisionError):
        begin_in_thread(lambda: 1 // 0).result()


def test_nobody_waits_for_a_slow_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.system.parallel.cores", lambda: 2)
    others_are_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert others_are_done.wait(120)
        elif item == 9:
            others_are_done.set()
        return item

    assert list(unordered_in_threads(work, range(10)))[-1] == 0


def test_the_error_of_the_earliest_item_is_raised() -> None:
    later = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            assert later.wait(120)
        else:
            later.set()
        raise KeyError(item)

    with pytest.raises(KeyError, match="0"):
        list(map_in_threads(work, range(9), workers=2))


def test_an_error_cancels_items_that_have_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.system.parallel.cores", lambda: 1)
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise KeyError(item)
        threading.Event().wait(0.01)

    with pytest.raises(KeyError):
        list(unordered_in_threads(work, range(1000)))
    assert len(begun) < 500
