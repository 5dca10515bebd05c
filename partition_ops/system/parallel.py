"""Work on many items in a few threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_once(work: Callable[[], None]) -> None:
    """Do some work here and now, where others may do it in a thread."""
    work()


def begin_in_thread(work: Callable[[], R], *, daemon: bool = False) -> Future[R]:
    """Begin some work in a thread, and return its result or error to be.

    Args:
        work: The work.
        daemon: Whether the process may end before the work does.
    """
    future: Future[R] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=daemon).start()
    return future


def map_in_threads(work: Callable[[T], R], items: Iterable[T], *, workers: int | None = None) -> Iterator[R]:
    """Yield the result of ``work`` for each item, in the order of the items.

    At most ``workers`` items run or have a result that was not taken, which bounds the memory. The error of
    the earliest item is raised, and cancels the items that have not started.
    """
    workers = workers or cores()
    if workers == 1:  # a thread takes 0.1 ms to start, as long as many a small piece of work
        yield from map(work, items)
        return
    rest = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        running: list[Future[R]] = [pool.submit(work, item) for item in islice(rest, workers)]
        try:
            while running:
                result = running.pop(0).result()
                running.extend(pool.submit(work, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in running:
                future.cancel()


def unordered_in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the result of ``work`` for each item, as soon as it is available.

    All results may be in memory at once, so they must be small. The first error, which may depend on the
    threads, cancels the items that have not started.
    """
    with ThreadPoolExecutor(cores()) as pool:
        try:
            for future in as_completed([pool.submit(work, item) for item in items]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
