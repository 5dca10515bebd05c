"""Progress reports: a bar on a terminal, plain lines in a log, or nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

logger = logging.getLogger("partition_ops")

Advance = Callable[[int], None]


class Progress(Protocol):
    """The interface of progress reports."""

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """Show a step of a stage, and yield a function that takes the units done since its last call.

        Several threads can call the function.
        """
        yield lambda done: None


class NoProgress:
    """No progress report."""

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        yield lambda done: None


class BarProgress:
    """A progress bar on a terminal, which disappears at the end of the step."""

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        from tqdm import tqdm  # only needed on a terminal

        lock = threading.Lock()
        with tqdm(
            desc=title, total=total, unit=f" {unit}", unit_scale=True, file=sys.stderr, leave=False
        ) as bar:

            def advance(done: int) -> None:
                with lock:
                    bar.update(done)

            yield advance


class LineProgress:
    """A plain line every few seconds during a step, less and less often while no unit is done.

    Args:
        write: Takes a line; by default the log of the library.
        interval: Seconds between two lines of a step.
    """

    def __init__(self, write: Callable[[str], None] = logger.info, interval: float = 5.0) -> None:
        self._write = write
        self._interval = interval
        self._lock = threading.Lock()  # a line is written, or a step begins, but not both at once
        self._steps: list[threading.Event] = []  # not ended; only the innermost one says that it works

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        ended = threading.Event()
        done_so_far = 0
        began = last = worked = time.monotonic()  # the last line, and the last units

        def advance(done: int) -> None:
            nonlocal done_so_far, last, worked
            with self._lock:
                done_so_far += done
                now = worked = time.monotonic()
                if now - last >= self._interval:
                    last = now
                    share = 100 * done_so_far // max(total, 1)
                    self._write(f"{title}: {done_so_far:,} of {total:,} {unit} ({share} %)")

        def say_that_it_works() -> None:
            nonlocal last
            wait = self._interval
            while not ended.wait(wait):
                with self._lock:
                    now = time.monotonic()
                    if now - max(last, worked) < wait:
                        wait = self._interval
                        continue
                    if self._steps[-1:] == [ended]:
                        last = now
                        self._write(f"{title}: at work for {now - began:.0f} s")
                wait *= 2

        with self._lock:
            self._steps.append(ended)
        worker = threading.Thread(target=say_that_it_works, daemon=True)
        worker.start()
        try:
            yield advance
        finally:
            with self._lock:
                self._steps.remove(ended)
            ended.set()
            worker.join()


def terminal_progress() -> Progress:
    """Return a progress bar if standard error is a terminal, else plain lines on standard error."""
    if sys.stderr.isatty():
        return BarProgress()
    return LineProgress(lambda line: print(line, file=sys.stderr, flush=True))
