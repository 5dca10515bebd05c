"""Process nodes a batch at a time, so that any number of threads gives the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.tuning import (
    LEAST_BATCHES,
    LEAST_SHARED,
    MOST_OF_A_BATCH,
    PIECES_OF_A_THREAD,
)
from partition_ops.system.parallel import cores

_alone: ContextVar[bool] = ContextVar("_alone", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Make `Batches` work in the calling thread, because other threads of the process do other work."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


class Batches:
    """Batches of the numbers below ``count``, each shared by threads.

    These are Python threads that run compiled code without the interpreter lock, rather than numba's own
    threads, which spin while they wait and so take several times as long on a machine with other work.

    Args:
        count: How many numbers. The size of a batch depends on it alone, not on the machine.

    Attributes:
        size: How many numbers are in a batch, or fewer in the last one.
        threads: As many as there are cores for this process, or one, see `one_thread`.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.size = max(1, min(MOST_OF_A_BATCH, count // LEAST_BATCHES))
        self.threads = 1 if _alone.get() else cores()
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def of(self, work: Callable[[int, slice], None]) -> Iterator[slice]:
        """Yield each batch after all of it has been processed.

        Args:
            work: Takes the number of the thread and its slice of the batch.
        """
        for first in range(0, self.count, self.size):
            last = min(first + self.size, self.count)
            self.share(first, last, work)
            yield slice(first, last)

    def share(self, first: int, last: int, work: Callable[[int, slice], None]) -> None:
        """Process the numbers from ``first`` to ``last``, in all threads if they are many.

        A thread takes the next piece when it has finished one: pieces take different times, and the system
        may give a core to another process.
        """
        count = last - first
        if self._pool is None or count < LEAST_SHARED:
            work(0, slice(first, last))
            return
        pieces = max(self.threads, min(PIECES_OF_A_THREAD * self.threads, count // LEAST_SHARED))
        places = [first + count * i // pieces for i in range(pieces + 1)]
        left = iter([slice(*ends) for ends in pairwise(places)])

        def take(thread: int) -> None:
            for piece in left:  # the iterator of a list gives each piece to one thread
                work(thread, piece)

        for job in [self._pool.submit(take, i) for i in range(self.threads)]:
            job.result()


def add_up_nodes(offsets: npt.NDArray[np.int64], work: Callable[[int, int], int]) -> int:
    """Return the sum of what ``work`` returns for ranges of nodes.

    Args:
        offsets: (nodes + 1,) int64, where the neighbours of each node begin; the ranges have as many each.
        work: Takes the first node of its range, and the one after the last.
    """
    found = []
    with Batches(int(offsets[-1])) as batches:

        def add(thread: int, span: slice) -> None:
            first, last = np.searchsorted(offsets, [span.start, span.stop])
            found.append(work(first, min(last, len(offsets) - 1)))

        batches.share(0, batches.count, add)
    return sum(found)
