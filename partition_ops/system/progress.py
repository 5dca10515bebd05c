"""Progress reports: a bar on a terminal, plain lines in a log, or nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from tqdm import tqdm

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

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        lock = threading.Lock()
        with tqdm(
            desc=title, total=total, unit=f" {unit}", unit_scale=True, file=self._stream, leave=False
        ) as bar:

            def advance(done: int) -> None:
                with lock:
                    bar.update(done)

            yield advance


class LineProgress:
    """A plain line every few seconds during a step.

    Args:
        write: Takes a line; by default the log of the library.
        interval: Seconds between two lines of a step.
    """

    def __init__(self, write: Callable[[str], None] = logger.info, interval: float = 5.0) -> None:
        self._write = write
        self._interval = interval

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        lock = threading.Lock()
        done_so_far = 0
        last = time.monotonic()

        def advance(done: int) -> None:
            nonlocal done_so_far, last
            with lock:
                done_so_far += done
                now = time.monotonic()
                if now - last >= self._interval:
                    last = now
                    share = 100 * done_so_far // max(total, 1)
                    self._write(f"{title}: {done_so_far:,} of {total:,} {unit} ({share} %)")

        yield advance


def terminal_progress() -> Progress:
    """Return a progress bar if standard error is a terminal, else plain lines on standard error."""
    if sys.stderr.isatty():
        return BarProgress()
    return LineProgress(lambda line: print(line, file=sys.stderr, flush=True))
