"""Figures, times and states as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from graph_partitioning.page.dag_runs import RunState, stage_of
from graph_partitioning.page.graphs import Graph, Row
from partition_ops.stages.quality.local_times import moment

KINDS = {
    "published": "good",
    "failed": "bad",
    "damaged": "bad",
    "waits for approval": "wait",
    "waits for another run": "lock",
    "exceeded": "bad",
    "kept": "good",
    "running": "now",
    "queued": "queued",
    "succeeded": "good",
    "published before": "good",
}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def when(time: datetime | None) -> str:
    """Return a time as text; ``""`` for None."""
    return "" if time is None else moment(time)


def duration(seconds: float | None) -> str:
    """Return a length of time as text, such as ``1 h 05 min``; ``""`` for None."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def durations(times: Mapping[str, float]) -> list[list[str]]:
    """Return rows of names and lengths of time for a table."""
    return [[name, duration(seconds)] for name, seconds in times.items()]


def paces(run: RunState) -> list[str]:
    """Return how long each stage that runs now has taken so far, and how long it is expected to take."""
    found = []
    for stage in dict.fromkeys(map(stage_of, run.running)):
        if stage not in run.began or run.locked:
            continue
        so_far = duration((datetime.now(UTC) - run.began[stage]).total_seconds())
        expected = run.expected.get(stage)
        text = f"{stage}: {so_far} so far"
        if expected is not None:
            seconds = duration(max(expected.seconds, 1))
            text += (
                f", about {seconds} by the estimate"
                if expected.estimated
                else f", {seconds} in the run before"
            )
        found.append(text)
    return found


NEXT = {
    "waits for approval": "A run does not pass the quality gate: review it, then approve or reject it.",
    "waits for another run": "A run begins as soon as the other one has ended.",
    "running": "A run works on the graph.",
    "queued": "A run begins as soon as Airflow has room for it.",
    "failed": "Read why the newest run failed, correct the input or the options, and run it again.",
    "damaged": "Files are missing or damaged: publish another run again, or run it again.",
    "published": "Train with the lines below. If the graph has changed, re-partition it.",
    "not published": "Trigger a run.",
}
RUN_NEXT = {
    "waits for approval": "It does not pass the quality gate: review it, then approve or reject it.",
    "waits for another run": "It begins as soon as the other run has ended.",
    "running": "There is nothing to do: this page refreshes itself.",
    "queued": "It begins as soon as Airflow has room for it.",
    "failed": "Read why it failed, correct the input or the options, and run it again.",
    "damaged": "Its files are missing or damaged: publish another run again, or run it again.",
    "published": "Train with the lines below.",
    "published before": "Another run is the published one. To return to this one, publish it again.",
}
SHARES = ("edge cut", "share of old nodes moved")  # figures that a gate limits, as it names them
LIMIT = re.compile(rf"({'|'.join(SHARES)}) ([0-9.e+-]+), at most ([0-9.e+-]+) allowed")


def next_step(graph: Graph) -> str:
    """Return what there is to do with a graph, as a sentence or two."""
    more = " Trainers get the run that was published before." if graph.failed and graph.newest else ""
    return NEXT[graph.state] + more


def run_step(state: str, run: RunState | None) -> str:
    """Return what there is to do with a run in a state of `row_state`, as a sentence; ``""`` if nothing."""
    if state == "removed" and (run is None or run.state == "success"):
        return "Its files have been removed. To have partitions like these, run it again."
    return RUN_NEXT.get(state, "")


def limit_lines(body: str) -> list[str]:
    """Return the lines about limits in the question of a gate, with shares as percentages."""
    return [in_percent(line[2:]) for line in body.splitlines() if line.startswith("- ")]


def in_percent(limit: str) -> str:
    """Return a sentence about a figure and its limit, with percentages if the figure is a share."""
    found = LIMIT.fullmatch(limit)
    return f"{found[1]} {_share(found[2])}, at most {_share(found[3])} allowed" if found else limit


def limited(what: str, value: float) -> str:
    """Return a figure that a gate limits, or its limit, as text."""
    return _share(value) if what in SHARES else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"


def _share(value: float | str) -> str:
    return f"{100 * float(value):.4g}%"


def check_title(name: str) -> str:
    """Return the name of a check in words."""
    return {"ingest": "tables (ingest)"}.get(name, name.replace("_", " "))


def kind_of(state: str) -> str:
    """Return the colour of a state, one of those of `KINDS`, or ``none``."""
    return KINDS.get(state, "none")


def row_state(row: Row, graph: Graph) -> str:
    """Return the state of a run in words: of its publication, or else of the DAG run."""
    if row.run is not None and row.run.active:
        return row.run.label
    if row.entry is not None:
        if not row.good:
            return "damaged"
        return "published" if row.name == graph.latest else "published before"
    if not graph.pending and (row.run is None or row.run.state == "success"):
        return "removed"
    if row.run is None:
        return "unknown"
    return row.run.label


def older_run(row: Row, graph: Graph) -> str:
    """Return a run that is to be removed in words: its time, state and name, and whether it has not ended."""
    fails = "; it has not ended, and fails without its files" if row.run and row.run.active else ""
    return f"{moment(row.when)}, {row_state(row, graph)}, {row.name}{fails}"


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{share:.1%}"


def column(entries: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    """Return a figure of every run; None if a run has none, as those of earlier versions."""
    return [entry.get(name) for entry in entries]


def engine(entry: Mapping[str, Any]) -> str:
    """Return the engine of a run; for ``auto`` with the one that it chose, or that it continued a run."""
    continued = entry["mode"] if (entry["engine"], entry["mode"]) == ("auto", "incremental") else ""
    used = entry.get("chosen") or continued
    return f"{entry['engine']} ({used})" if used else entry["engine"]


def pairs(figures: Mapping[str, Any], form: str, named: Callable[[str], str] = str) -> list[list[str]]:
    """Return rows of names and figures for a table."""
    return [[named(name), form.format(value)] for name, value in figures.items()]


def readable_size(size: float) -> str:
    """Return bytes in the unit that leaves one to four digits before the point."""
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
