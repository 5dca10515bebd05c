"""Templates of the pages of graphs, with graphs in each state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from graph_partitioning.page.actions import Actions, Trigger
from graph_partitioning.page.app import COLUMNS, render
from graph_partitioning.page.dag_runs import RunKey, RunState
from graph_partitioning.page.graphs import Graph
from graph_partitioning.page.lookup import TaskKey
from graph_partitioning.page.words import limit_lines, limited, older_run, row_state

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
        shown = row_state(graph.rows[0], graph) if name == "run" else state
        assert f">{shown}</span>" in page, name
        assert ("failed in" in page) == (state == "failed"), name
        assert (">Approve</button>" in page) == (state == "waits for approval"), name


def _of_run(graph: Graph, run: RunState) -> dict[str, object]:
    (row,) = graph.rows
    return {
        **{"name": row.name, "when": row.when, "entry": None, "good": False, "state": run},
        "label": row_state(row, graph),
        **{"input": "s3://graphs/input/shop", "options": {}, "params": ([], []), "times": {}},
        **{"changes": None, "unread": [], "review": None, "problem": ""},
    }


def test_a_run_that_waits_names_the_run_that_it_waits_for() -> None:
    other = RunKey("partition_graph", "manual__0")
    holds = RunState(
        other, "running", created=NOW, started=NOW, began={"revalidate": NOW}, running=["partition"]
    )
    waits = RunState(KEY, created=NOW, started=NOW, **STATES["waits for another run"])
    graph = Graph("s3://graphs/output/shop", None, runs={other: holds, KEY: waits})
    page = render("graphs.html", graphs=[graph], columns=COLUMNS, answerable=set())
    assert 'title="manual__0">that of 2026-01-02 00:00 UTC</a>' in page


def test_the_page_of_a_failed_run_says_what_to_do_and_leads_to_the_form() -> None:
    run = RunState(KEY, created=NOW, started=NOW, **STATES["failed"])
    graph = Graph("s3://graphs/output/shop", None, runs={KEY: run})
    allowed = Actions(Trigger("partition_graph", {}, {}, False, None))
    page = render("run.html", graph=graph, **_of_run(graph, run), actions=allowed)
    text = " ".join(page.split())
    assert "This run has not been published. Read why it failed, correct the input or the options" in text
    assert "#again" in page and 'id="again"' in render(
        "graph.html", graph=graph, rows=graph.rows, charts=[], actions=allowed
    )
    assert "All have their default values" in render(
        "run.html", graph=graph, **{**_of_run(graph, run), "params": ([], [["Seed", "0"]])}, actions=allowed
    )


def test_limits_of_shares_are_percentages() -> None:
    lines = ["edge cut 0.314, at most 0.1 allowed", "imbalance of a 1.2, at most 1.1 allowed"]
    body = "\n".join(["`s3://graphs/output/shop/runs/one`", "", *(f"- {line}" for line in lines)])
    assert limit_lines(body) == [
        "edge cut 31.4%, at most 10% allowed",
        "imbalance of a 1.2, at most 1.1 allowed",
    ]
    assert limited("edge cut", 0.5) == "50%"
    assert limited("remote rows a batch of the slowest trainer", 123456.0) == "123,456"
    assert limited("imbalance of a", 1.23456) == "1.235"


def test_runs_to_remove_say_whether_they_have_ended() -> None:
    for state, text in (("failed", ""), ("waits for another run", "; it has not ended")):
        run = RunState(KEY, created=NOW, started=NOW, **STATES[state])
        graph = Graph("s3://graphs/output/shop", None, runs={KEY: run})
        (row,) = graph.rows
        said = older_run(row, graph)
        assert said.startswith(f"2026-01-02 00:00 UTC, {state}, {row.name}")
        assert text in said and ("ended" in said) == bool(text)


def test_a_comparison_names_runs_as_the_list_does() -> None:
    run = RunState(KEY, "success", created=NOW, started=NOW, ended=NOW)
    graph = Graph("s3://graphs/output/shop", None, runs={KEY: run})
    (row,) = graph.rows
    entries = [
        {"run": name, "published": "2026-01-02T00:09:00+00:00"} for name in (row.name, "of_the_command_line")
    ]
    graph.entries = entries
    page = render("compare.html", graph=graph, a=entries[0], b=entries[1], tables=[], moved="")
    assert f'title="{row.name}">2026-01-02 00:00 UTC</span>' in page
    assert 'title="of_the_command_line">2026-01-02 00:09 UTC</span>' in page


@pytest.mark.parametrize("unnamed", ["", "s3://graphs/inptu/shop"])
def test_an_input_that_no_run_has_read_can_be_taken_off_the_list(unnamed: str) -> None:
    run = RunState(KEY, created=NOW, started=NOW, **STATES["failed"])
    graph = Graph("s3://graphs/output/shop", None, runs={KEY: run}, unnamed=unnamed)
    page = render("graph.html", graph=graph, rows=graph.rows, charts=[], actions=Actions(manage=True))
    assert (">Remove the graph</button>" in page) == (not unnamed)
    assert ("No run has read this input" in page) == bool(unnamed)
