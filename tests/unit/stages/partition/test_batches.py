"""Batches of numbers that threads share."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest

from partition_ops.stages.partition.multilevel import batches
from partition_ops.stages.partition.multilevel.batches import Batches, add_up_nodes, one_thread
from partition_ops.stages.partition.multilevel.tuning import LEAST_SHARED

MANY = 5 * LEAST_SHARED + 3


@pytest.fixture(autouse=True)
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "cores", lambda: 3)


@pytest.mark.parametrize("count", [0, 1, LEAST_SHARED - 1, LEAST_SHARED, MANY, 40 * LEAST_SHARED])
def test_each_number_is_processed_once(count: int) -> None:
    done: list[int] = []
    with Batches(count) as some:
        some.share(0, count, lambda _, span: done.extend(range(span.start, span.stop)))
    assert sorted(done) == list(range(count))


def test_a_thread_that_waits_does_not_hold_up_the_others() -> None:
    others, done = Event(), 0

    def work(_: int, span: slice) -> None:
        nonlocal done
        if span.start == 0:
            assert others.wait(60)
        done += span.stop - span.start
        if done == MANY - MANY // 5:  # all but the first of five pieces
            others.set()

    with Batches(MANY) as some:
        some.share(0, MANY, work)
    assert done == MANY


def test_few_numbers_and_one_thread_need_no_other_thread() -> None:
    spans: list[tuple[int, slice]] = []
    with Batches(MANY) as some:
        some.share(5, 5 + LEAST_SHARED - 1, lambda *what: spans.append(what))
    with one_thread(), Batches(MANY) as some:
        some.share(0, MANY, lambda *what: spans.append(what))
    assert spans == [(0, slice(5, 4 + LEAST_SHARED)), (0, slice(0, MANY))]


def test_an_error_in_a_thread_is_raised() -> None:
    def work(thread: int, span: slice) -> None:
        raise ValueError("this one")

    with Batches(MANY) as some, pytest.raises(ValueError, match="this one"):
        some.share(0, MANY, work)


def test_ranges_of_nodes_cover_each_node_once() -> None:
    offsets = np.cumsum(np.r_[0, np.arange(300) % 7 * 100])
    assert add_up_nodes(offsets, lambda begin, end: int(offsets[end] - offsets[begin])) == offsets[-1]
