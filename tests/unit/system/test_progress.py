"""Progress in plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from partition_ops.system.progress import LineProgress

INTERVAL = 0.05


def lines_of(count: int, *, nested: bool) -> list[str]:
    """Return the first lines of a step, or of the inner one of two, in which nothing is done."""
    lines: list[str] = []
    progress = LineProgress(lines.append, interval=INTERVAL)
    with progress.step("outer", 2, "files"):
        if nested:
            with progress.step("inner", 2, "files"):
                lines.clear()  # of the time before the inner step began
                _wait_for(lines, count)
        else:
            _wait_for(lines, count)
    return lines


def _wait_for(lines: list[str], count: int) -> None:
    end = time.monotonic() + 60
    while len(lines) < count and time.monotonic() < end:
        time.sleep(INTERVAL)


def test_a_step_in_which_nothing_is_done_says_that_it_works() -> None:
    lines = lines_of(2, nested=False)
    assert len(lines) >= 2
    assert all(line.startswith("outer: at work for ") for line in lines)


def test_of_two_steps_only_the_inner_one_says_so() -> None:
    lines = lines_of(2, nested=True)
    assert len(lines) >= 2
    assert all(line.startswith("inner: ") for line in lines)


def test_what_is_done_is_said() -> None:
    lines: list[str] = []
    with LineProgress(lines.append, interval=0).step("outer", 4, "files") as advance:
        advance(1)
        advance(2)
    assert [line for line in lines if "at work" not in line] == [
        "outer: 1 of 4 files (25 %)",
        "outer: 3 of 4 files (75 %)",
    ]


class Ended:
    """An event on which a step waits; its waits move the clock, and units are done in the first three."""

    def __init__(self) -> None:
        self.now, self.waits, self.lines = 0.0, list[float](), list[str]()
        self.advance: Callable[[int], None]

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        for _ in range(2):
            self.now += seconds / 2
            if len(self.waits) <= 3:
                self.advance(1)
        return len(self.waits) == 7

    def set(self) -> None:
        pass


def test_a_step_that_stalls_later_says_so_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, worker = Ended(), Mock()
    monkeypatch.setattr(threading, "Event", lambda: ended)
    monkeypatch.setattr(threading, "Thread", worker)
    monkeypatch.setattr(time, "monotonic", lambda: ended.now)
    with LineProgress(ended.lines.append, interval=5.0).step("outer", 6, "files") as ended.advance:
        worker.call_args.kwargs["target"]()
    assert ended.waits == [5, 5, 5, 5, 10, 20, 40]
    assert ended.lines == [
        *(f"outer: {done} of 6 files ({share} %)" for done, share in ((2, 33), (4, 66), (6, 100))),
        *(f"outer: at work for {seconds} s" for seconds in (20, 30, 50)),
    ]
