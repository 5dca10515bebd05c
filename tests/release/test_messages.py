"""The page of errors has the messages of the code, and users find the errors that they get on it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from local_stack.folders import PROJECT
from tests.command_line import Called
from tests.graphs import Edges, library

BUILT = runpy.run_path(str(PROJECT / "docs/built_tables.py"))


def test_the_messages_are_those_of_the_code() -> None:
    found = BUILT["messages"]()
    assert sum(map(len, found.values())) > 500
    assert {"RejectedTablesError", "InvalidIdError", "EvaluatorError"} <= set(found)  # not of errors.py
    assert "There are more partitions than nodes" in dict(found["UsageError"])
    assert "#### There are more partitions than nodes\n" in BUILT["messages_by_class"]()


def test_every_error_has_its_message_on_the_page() -> None:
    """All but those that pass on the message of another error."""
    assert BUILT["read_messages"]().unknown == [
        "UsageError(f'{option.option_string}: {error}', found=repr(value))",
        "UsageError(error.problem, found=error.found, expected=error.expected)",
        "InvalidInputError(error.problem, found=error.found, expected=error.expected, remedy=remedy)",
        "InvalidInputError(**answer['rejected'])",
        "InvalidInputError(first.title, found=first.found + rows, expected=first.expected)",
        "_Finding(error.problem, error.problem, None, found, expected)",
    ]


@pytest.fixture(scope="module")
def rows() -> list[re.Pattern[str]]:
    """The messages of the page, with anything in place of what they fill in."""
    texts = [text for messages in BUILT["messages"]().values() for text, _ in messages]
    return [
        re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL)
        for text in texts
        if len(re.findall(r"[A-Za-z]{2,}", text)) > 2
    ]


RUN = ("run", "graph", "out", "--num-parts")
COMMANDS: dict[str, tuple[str, ...]] = {
    "no graph": ("run", "nowhere", "out", "--num-parts", "2"),
    "more partitions than nodes": (*RUN, "5000"),
    "an option that the engine does not support": (*RUN, "2", "--engine", "random", "--tolerance", "1.1"),
    "an option that needs another one": (*RUN, "2", "--drift", "1.1"),
    "an ID out of range": ("validate", "damaged", "--no-data-docs"),
    "no finished output": ("verify", "graph", "empty"),
    "no such partition": ("fetch", "finished", "--part", "7", "--to", "data"),
    "other files in the output": ("run", "graph", "graph", "--num-parts", "2"),
    "the quality gate": (*RUN, "2", "--engine", "random", "--max-edge-cut", "0.001"),
    "rows of another number": (
        *("idmap", "restore", "finished", "--node-type", "paper"),
        *("--input", "rows.npy", "--output", "restored.npy"),
    ),
    "a key without a node": ("ingest", "tables/graph.yaml", "ingested"),
    "a name that is not known": ("ingest", "tables/wrong.yaml", "ingested"),
    "a value that is no size": ("validate", "graph", "--memory", "much"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a reader: a graph, a damaged one, a finished output, and tables that are no graph."""
    from partition_ops import run

    root = tmp_path_factory.mktemp("errors")
    graph = library()
    graph.write(root / "graph")
    run(root / "graph", root / "finished", num_parts=2, engine="random")
    graph.edges["paper:cites:paper"] = Edges([0, 999], [1, 2])
    graph.edge_values.clear()
    graph.write(root / "damaged")
    (root / "empty").mkdir()
    np.save(root / "rows.npy", np.zeros(3))
    tables = root / "tables"
    tables.mkdir()
    (tables / "users.csv").write_text("user\nann\n")
    (tables / "knows.csv").write_text("a,b\nann,bob\n")
    text = "graph_name: g\nnodes: {user: {table: users.csv, key: user}}\n"
    edges = "edges: {'user:knows:user': {table: knows.csv, src: a, dst: b}}\n"
    (tables / "graph.yaml").write_text(text + edges)
    (tables / "wrong.yaml").write_text(text + edges + "vertices: {}\n")
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_the_message_is_on_the_page(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, called: Called, rows: list[re.Pattern[str]]
) -> None:
    monkeypatch.chdir(folder)
    done = called(*COMMANDS[name])
    assert done.returncode in (1, 2, 3)
    (message,) = re.findall(r"^partition-ops(?: \w+)*: error: (.*)$", done.stderr, re.MULTILINE)
    assert any(row.fullmatch(message) for row in rows), message
