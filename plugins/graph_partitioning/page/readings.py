"""What storage knows of graphs, read in the background, so that a page need not wait for it.

A request waits for a reading for a limited time, and shows what it has. Requests for the same graph share one
reading.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from graph_partitioning.hooks.storage import GraphStorageHook
from partition_ops.artifacts.latest import latest_run
from partition_ops.errors import PartitionOpsError, TransientStorageError
from partition_ops.stages.publish.run_index import read_index, run_name
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.parallel import begin_in_thread

FIRST_SECONDS = 0.5  # for which the first answer waits for storage; the page asks again at once
MOST_SECONDS = 2.0  # for which the second one does
REUSE_SECONDS = 3.0  # after its end, in which a page that asks again takes a reading
READERS = 200  # documents of a folder read at a time
KEPT_SECONDS = (
    20.0  # after a reading, in which the next one uses its connections; servers end idle ones later
)
IMPATIENT: dict[str, Any] = {  # nobody waits longer for a page
    "connect_timeout": 3.0,
    "read_timeout": 10.0,
    "max_attempts": 1,
    "max_concurrency": READERS,  # as many connections are kept
}
Entry = dict[str, Any]
Place = tuple[str | None, str]
"""An Airflow connection, and the root of a graph."""
Result = TypeVar("Result")


class NotYet(TransientStorageError):
    """The storage has not answered yet."""


@dataclass
class Figures:
    """What storage knows of a graph.

    Attributes:
        entries: Figures of its published runs, oldest first, as in ``index.json``.
        latest: Name of the folder of the run that ``latest.json`` names; "" if there is none.
        problem: Why these could not be read.
    """

    entries: list[Entry] = field(default_factory=list)
    latest: str = ""
    problem: str = ""


class Patience(NamedTuple):
    """How long a request waits for storage.

    Attributes:
        until: When it stops waiting, by ``time.monotonic``.
        reuse: Whether it takes a reading that has just ended, because it repeats a request that did not wait.
    """

    until: float
    reuse: bool


_readings: dict[Place, Future[Figures]] = {}
_ended: dict[Place, tuple[float, Future[Figures]]] = {}  # those that may be reused, with their ends
_lock = threading.Lock()


def read_figures(places: Collection[Place], *, reuse: bool = False) -> dict[Place, Future[Figures]]:
    """Return the readings of graphs, which go on in the background; those that still run are shared.

    Args:
        places: The graphs.
        reuse: Also return readings that ended at most `REUSE_SECONDS` ago.
    """
    new: dict[Place, dict[str, Future[Figures]]] = defaultdict(dict)
    found: dict[Place, Future[Figures]] = {}
    with _lock:
        oldest = time.monotonic() - REUSE_SECONDS
        for place in [place for place, (end, _) in _ended.items() if end < oldest]:
            del _ended[place]
        for place in places:
            if reuse and place in _ended:
                found[place] = _ended[place][1]
                continue
            if place not in _readings:
                _readings[place] = Future()
                folder, _, name = place[1].rpartition("/")
                new[place[0], folder][name] = _readings[place]
            found[place] = _readings[place]
    for where, graphs in new.items():  # graphs in the same folder share a client
        threading.Thread(target=_read, args=(where, graphs), daemon=True).start()
    return found


def within(until: float, work: Callable[[], Result]) -> Result:
    """Return the result of a function that reads storage.

    Args:
        until: When to stop waiting, by ``time.monotonic``.
        work: The function, which goes on after that.

    Raises:
        NotYet: It has no result yet.
    """
    future = begin_in_thread(work, daemon=True)
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        if future.done():  # an error of the function
            raise
        raise NotYet("The storage has not answered yet") from None


class _Reader:
    """A folder with graphs, its connections and its threads, which the next reading uses again.

    Attributes:
        settings: How the folder is reached.
        store: The folder.
        pool: The threads.
        busy: Number of readings that run.
        used: When the last one ended.
    """

    def __init__(self, folder: str, settings: StorageSettings | None) -> None:
        self.settings = settings
        self.store = open_store(folder, settings)
        self.pool = ThreadPoolExecutor(READERS, "graphs")
        self.busy = 0
        self.used = time.monotonic()

    def close(self) -> None:
        self.pool.shutdown(wait=False)
        self.store.close()


_readers: dict[Place, _Reader] = {}


@contextmanager
def _reader(where: Place) -> Iterator[_Reader]:
    """Open a folder with graphs, or use it again if the last reading with the same settings was just now."""
    conn_id, folder = where
    settings = replace(GraphStorageHook(conn_id).settings, **IMPATIENT) if "://" in folder else None
    with _lock:
        oldest = time.monotonic() - KEPT_SECONDS
        for place in [place for place, one in _readers.items() if one.used < oldest and not one.busy]:
            _readers.pop(place).close()
        known = _readers.get(where)
        if known is None or known.settings != settings:
            if known is not None and not known.busy:
                known.close()
            known = _readers[where] = _Reader(folder, settings)
        known.busy += 1
    try:
        yield known
    finally:
        with _lock:
            known.busy -= 1
            known.used = time.monotonic()
            if _readers.get(where) is not known and not known.busy:
                known.close()


def _read(where: Place, graphs: Mapping[str, Future[Figures]]) -> None:
    """Read some graphs in a folder, by name."""
    conn_id, folder = where

    def end(name: str, figures: Figures) -> None:
        place = conn_id, f"{folder}/{name}"
        with _lock:
            if _readings.get(place) is graphs[name]:
                del _readings[place]
            _ended[place] = time.monotonic(), graphs[name]
        graphs[name].set_result(figures)

    problem = "An unexpected error: the log of Airflow's API server has it."
    try:
        with _reader(where) as reader:
            for name, figures in _all_figures(reader, graphs):
                end(name, figures)
    except PartitionOpsError as error:
        problem = error.summary()
    finally:
        for name, reading in graphs.items():
            if not reading.done():
                end(name, Figures(problem=problem))


def _all_figures(reader: _Reader, names: Iterable[str]) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of graphs as soon as they are there; both documents are read at the same time."""
    waited: dict[Future[Any], str] = {}
    parts: dict[str, tuple[Future[list[Entry]], Future[str | None]]] = {}
    for name in names:
        root = reader.store.child(name)
        parts[name] = reader.pool.submit(read_index, root), reader.pool.submit(latest_run, root)
        waited |= dict.fromkeys(parts[name], name)
    for future in as_completed(waited):
        name = waited[future]
        if name in parts and all(part.done() for part in parts[name]):
            yield name, _figures(*parts.pop(name))


def _figures(entries: Future[list[Entry]], latest: Future[str | None]) -> Figures:
    found = Figures()
    try:
        found.entries = entries.result()
        found.latest = run_name(latest.result() or "")
    except PartitionOpsError as error:
        found.problem = error.summary()
    return found
