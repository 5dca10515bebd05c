"""Templates of the pages of graphs, with graphs in each state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from graph_partitioning.page.actions import Actions
from graph_partitioning.page.app import COLUMNS, render
from graph_partitioning.page.dag_runs import RunKey, RunState
from graph_partitioning.page.graphs import Graph
from graph_partitioning.page.lookup import TaskKey

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY = RunKey("partition_graph", "manual__1")
TASK = TaskKey("partition_graph", "manual__1", "validate", -1)
STATES: dict[str, dict[str, Any]] = {
    "failed": {"state": "failed", "ended": NOW, "failure": (TASK, "the input is missing")},
    "queued": {"state": "queued"},
    "running": {"state": "running", "running": ["validate"], "tasks": 9},
    "waits for approval": {"state": "running", "waiting": TASK, "question": ("Publish?", ""), "asked": NOW},
    "waits for another run": {"state": "running", "locked": NOW, "running": ["lock"]},
    "not published": {"state": "success", "ended": NOW},
}


@pytest.mark.parametrize("state", STATES)
def test_pages_show_a_graph_in_each_state(state: str) -> None:
    run = RunState(KEY, created=NOW, started=NOW, **STATES[state])
    graph = Graph("s3://graphs/output/shop", None, runs={KEY: run})
    allowed = Actions(answerable={"partition_graph"})
    pages = {
        "list": render("graphs.html", graphs=[graph], columns=COLUMNS, answerable={"partition_graph"}),
        "graph": render("graph.html", graph=graph, rows=graph.rows, charts=[], actions=allowed),
        "run": render("run.html", graph=graph, **_of_run(graph, run), actions=allowed),
    }
    for name, page in pages.items():
        shown = run.label if name == "run" else state
        assert f">{shown}</span>" in page, name
        assert ("failed in" in page) == (state == "failed"), name
        assert (">Approve</button>" in page) == (state == "waits for approval"), name


def _of_run(graph: Graph, run: RunState) -> dict[str, object]:
    (row,) = graph.rows
    return {
        **{"name": row.name, "when": row.when, "entry": None, "good": False, "state": run},
        **{"input": "s3://graphs/input/shop", "options": {}, "params": ([], []), "times": {}},
        **{"changes": None, "unread": [], "review": None, "problem": ""},
    }
