"""Work in threads: every result once, errors immediately, and no new items after an error."""

from __future__ import annotations

import threading

import pytest

from partition_ops.system.parallel import computed_once, map_in_threads, unordered_in_threads


def test_results_come_in_order_or_as_they_are_ready() -> None:
    assert list(map_in_threads(lambda item: item * 2, range(50), workers=3)) == list(range(0, 100, 2))
    assert sorted(unordered_in_threads(lambda item: item * 2, range(50))) == list(range(0, 100, 2))


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


def test_so_many_results_ahead_wait_for_a_slow_item() -> None:
    begun: list[int] = []
    others_are_done = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item == 0:
            assert others_are_done.wait(120)
            assert sorted(begun) == [0, 1, 2, 3, 4], "two run, and three more may wait"
        elif item == 4:
            others_are_done.set()
        return item

    assert [*map_in_threads(work, range(10), workers=2, ahead=3)] == [*range(10)]


def test_the_error_of_the_earliest_item_is_raised() -> None:
    later = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            assert later.wait(120)
        else:
            later.set()
        raise KeyError(item)

    with pytest.raises(KeyError, match="0"):
        list(map_in_threads(work, range(9), workers=2, ahead=9))


class _Slow:
    """Objects whose property takes until another object's is at work, too."""

    def __init__(self, meeting: threading.Barrier) -> None:
        self._meeting = meeting
        self.times = 0

    @computed_once
    def value(self) -> int:
        """A number."""
        self.times += 1
        self._meeting.wait(120)
        return self.times


def test_threads_compute_a_property_of_an_object_each_at_the_same_time() -> None:
    meeting = threading.Barrier(2)
    both = [_Slow(meeting), _Slow(meeting)]
    assert [*map_in_threads(lambda slow: slow.value, both, workers=2)] == [1, 1]
    assert [slow.value for slow in both] == [1, 1]
    assert [slow.times for slow in both] == [1, 1], "computed once"
    assert _Slow.value.__doc__ == "A number."


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
