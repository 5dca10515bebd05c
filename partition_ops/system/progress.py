"""Progress of long work: a bar on a terminal, plain lines in a log."""

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
    """Shows how far a step of a stage has come."""

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """Show one step; the function it gives takes what was done since the last call.

        The function may be called from several threads.
        """
        yield lambda done: None


class NoProgress:
    """Shows nothing."""

    @contextmanager
    def step(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        yield lambda done: None


class BarProgress:
    """A bar on a terminal; it disappears when the step is done."""

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
    """A plain line when a step begins and every few seconds while it lasts.

    Args:
        write: Takes a line; the log of the library if left out.
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
    """Bars where standard error is a terminal, lines on standard error elsewhere."""
    if sys.stderr.isatty():
        return BarProgress()
    return LineProgress(lambda line: print(line, file=sys.stderr, flush=True))
