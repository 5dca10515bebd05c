"""The graphs of the page *Graphs*: from Airflow's database which ones, from their storage how good they are.

A user sees the graphs of the runs of DAGs that this user may read, and no others, even in the same bucket.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.options import FORM
from graph_partitioning.page.dag_runs import RunKey, RunState, add_tasks, find_runs
from graph_partitioning.page.lookup import TaskKey
from graph_partitioning.page.readings import Entry, Patience, Place, read_figures
from graph_partitioning.runs import run_folder
from partition_ops.options.declare import options_of
from partition_ops.storage import Store

Result = TypeVar("Result")
AFTER_LOCK = "revalidate"  # the first stage of a run that has the lock of the graph
INPUT_FILES = (".yaml", ".yml", ".bin", ".json")  # what an input may be instead of a folder


@dataclass(frozen=True)
class Row:
    """A run of a graph: what Airflow knows of it, and its figures if it is published."""

    name: str
    entry: Entry | None
    run: RunState | None

    @property
    def good(self) -> bool:
        return self.entry is not None and "broken" not in self.entry

    @property
    def when(self) -> str:
        """When it was triggered or published, in ISO format."""
        if self.run is not None and self.run.created is not None:
            return self.run.created.isoformat(timespec="seconds")
        return str(self.entry["published"]) if self.entry else ""


@dataclass
class Graph:
    """A graph that the user may see.

    Attributes:
        root: URI of the root of its runs.
        storage_conn_id: ID of the Airflow connection that reaches it.
        published: The tasks that published its runs, by name of the folder of the run.
        validated: The tasks that validated their inputs, likewise.
        runs: Its DAG runs, oldest first.
        entries: Figures of the published runs, oldest first, as in ``index.json``.
        latest: Name of the folder of the run that ``latest.json`` names; "" if there is none.
        problem: Why these could not be read.
        pending: Whether the storage has not answered yet, so that these are missing.
        unnamed: URI of the input if the name of the graph is not known, because no run has read it; `root` is
            that of the outputs then.
    """

    root: str
    storage_conn_id: str | None
    published: dict[str, TaskKey] = field(default_factory=dict)
    validated: dict[str, TaskKey] = field(default_factory=dict)
    runs: dict[RunKey, RunState] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    latest: str = ""
    problem: str = ""
    pending: bool = False
    unnamed: str = ""

    @property
    def place(self) -> Place:
        """The root and the connection that reaches it."""
        return self.storage_conn_id, self.root

    @property
    def name(self) -> str:
        """Name of the graph; before a run has read it, that of the folder of its input."""
        *above, last = (self.unnamed or self.root).rstrip("/").split("/")
        return (above[-1] or last) if self.unnamed and last.endswith(INPUT_FILES) else last

    @property
    def active(self) -> list[RunState]:
        """The runs that are queued or run."""
        return [run for run in self.runs.values() if run.active]

    @property
    def busy(self) -> list[RunState]:
        """The runs that work on the graph, or hold its lock while they wait for a person."""
        return [run for run in self.active if run.state == "running" and not run.locked]

    @property
    def holder(self) -> RunState | None:
        """The run that holds the lock of the graph, for which others wait."""
        return next((run for run in self.busy if AFTER_LOCK in run.began), None)

    @property
    def waiting(self) -> list[RunState]:
        """The runs that are queued, or wait for another run."""
        return [run for run in self.active if run not in self.busy]

    @property
    def last(self) -> RunState | None:
        """The newest run."""
        return next(reversed(self.runs.values()), None)

    @property
    def failed(self) -> RunState | None:
        """The newest run that has ended, if it failed."""
        ended = [run for run in self.runs.values() if not run.active]
        return ended[-1] if ended and ended[-1].state == "failed" else None

    @property
    def state(self) -> str:
        """Its state in a word or two: what needs a person first."""
        labels = [run.label for run in self.active]
        for label in ("waits for approval", "running", "waits for another run", "queued"):
            if label in labels:
                return label
        if self.failed:
            return "failed"
        if self.problem or len(self.good) < len(self.entries):
            return "damaged"
        published = self.published if self.pending else self.newest
        return "published" if published else "not published"

    @property
    def key(self) -> str:
        """The graph in URLs. It is looked up among the graphs that the user may see."""
        place = f"{self.storage_conn_id}|{self.root}" + (f"|{self.unnamed}" if self.unnamed else "")
        return hashlib.sha256(place.encode()).hexdigest()[:16]

    @property
    def good(self) -> list[Entry]:
        """The runs that are not broken."""
        return [entry for entry in self.entries if "broken" not in entry]

    @property
    def newest(self) -> Entry | None:
        """The run that ``latest.json`` names, or else the newest one."""
        named = [entry for entry in self.good if entry["run"] == self.latest]
        return next(reversed(named or self.good), None)

    @property
    def rows(self) -> list[Row]:
        """All runs, newest first: those that Airflow knows, and those that are published."""
        states = {run_folder(key.run_id): run for key, run in self.runs.items()}
        entries = {entry["run"]: entry for entry in self.entries}
        found = [Row(name, entries.get(name), states.get(name)) for name in {**states, **entries}]
        return sorted(found, key=lambda row: row.when, reverse=True)

    def time_of(self, name: str) -> str:
        """Return the time by which the pages name a run, in ISO format; ``""`` if there is no such run."""
        return next((row.when for row in self.rows if row.name == name), "")

    def uri_of(self, entry: Entry) -> str:
        """Return the URI of a run."""
        return f"{self.root}/runs/{entry['run']}"


def visible_graphs(session: Session, dag_ids: set[str]) -> list[Graph]:
    """Return the graphs of the runs of these DAGs, by name, without their figures.

    Runs whose graph has no name yet, because their input could not be read, are a graph of their own for each
    input and output.
    """
    graphs: dict[object, Graph] = {}
    for run in find_runs(session, dag_ids):
        if run.root is not None:
            graph = graphs.setdefault(run.root, Graph(*run.root))
        elif run.place is not None:
            place = run.place
            unnamed = Graph(place.output_uri, place.storage_conn_id, unnamed=place.input_uri)
            graph = graphs.setdefault(place, unnamed)
        else:
            continue
        graph.runs[run.state.key] = run.state
        folder = run_folder(run.state.key.run_id)
        if run.validated:
            graph.validated[folder] = run.validated
        if run.published:
            graph.published[folder] = run.published
    return sorted(graphs.values(), key=lambda graph: (graph.name, graph.root))


def add_states(session: Session, graphs: Collection[Graph]) -> None:
    """Add to graphs what the tasks of runs do that are active or failed last."""
    add_tasks(session, (run for graph in graphs for run in [*graph.active, graph.failed] if run))


def add_figures(graphs: Collection[Graph], patience: Patience) -> None:
    """Add the figures of the published runs; a graph that cannot be read says why.

    Graphs whose storage has not answered are `Graph.pending`.

    Args:
        graphs: The graphs.
        patience: How long to wait.
    """
    readings = read_figures([graph.place for graph in graphs if not graph.unnamed], reuse=patience.reuse)
    wait(readings.values(), max(0.0, patience.until - time.monotonic()))
    for graph in graphs:
        reading = readings.get(graph.place)
        if reading is None:
            continue
        if not reading.done():
            graph.pending = True
            continue
        figures = reading.result()
        graph.entries, graph.latest, graph.problem = figures.entries, figures.latest, figures.problem


def with_run(graph: Graph, name: str, use: Callable[[Store], Result]) -> Result:
    """Call a function with the store of a published run of a graph.

    Raises:
        KeyError: The graph has no such run.
        PartitionOpsError: As the function raises it, or the storage cannot be reached.
    """
    if name not in {entry["run"] for entry in graph.entries}:
        raise KeyError(name)
    with GraphStorageHook(graph.storage_conn_id).open(f"{graph.root}/runs/{name}") as store:
        return use(store)


def flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested options as text by dotted name."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = "" if value is None else str(value)
    return found


def titled(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options of tasks as text by their titles in the form; others have dotted names."""
    titles = {one.name: one.title for one in options_of(*FORM) if one.form is not None and one.title}
    found: dict[str, str] = {}
    for name, value in flat(options).items():
        title = titles.get(name.rpartition(".")[2], name)
        found[name if title in found else title] = value
    return found
