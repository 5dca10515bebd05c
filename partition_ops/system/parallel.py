"""Work on many items in a few threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")


class computed_once(Generic[R]):
    """A property that is computed when it is first used, and kept in the object.

    `functools.cached_property` of Python 3.11 has one lock for all objects of a class: threads that work on
    different objects would wait for one another. If threads share an object, it may be computed twice here.
    """

    def __init__(self, compute: Callable[[Any], R]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[R]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> R: ...

    def __get__(self, instance: object | None, owner: type) -> computed_once[R] | R:
        if instance is None:
            return self
        found = self._compute(instance)
        vars(instance)[self._compute.__name__] = found  # the next use does not come here
        return found


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_threads(
    work: Callable[[T], R], items: Iterable[T], *, workers: int | None = None, ahead: int = 0
) -> Iterator[R]:
    """Yield the result of ``work`` for each item, in the order of the items.

    At most ``workers`` items run, and at most ``workers + ahead`` run or have a result that was not taken,
    which bounds the memory. While an item takes long, ``ahead`` others can end. The error of the earliest
    item is raised, and cancels the items that have not started.
    """
    workers = workers or cores()
    rest = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        running: list[Future[R]] = [pool.submit(work, item) for item in islice(rest, workers + ahead)]
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
