"""The blocks of pages that need no servers run on a small graph."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from partition_ops.stages.partition.mpi.mpirun import mpi_environment
from tests.command_line import Called
from tests.e2e.guide import tools_on_path
from tests.graphs import Edges, library
from tests.pages import indented_commands, run_blocks, run_commands

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ["partition", "repair", "manifest-last", "from-dgl", "from-graphstorm"]


def write_graphs(folder: Path) -> None:
    """Write the graph ``citations``, and the same one with a duplicate edge and a self-loop."""
    graph = replace(library(), name="citations")
    for name in ("graphs/citations", "graphs/mag"):
        graph.write(folder / name)
    tables = folder / "my-tables"
    tables.mkdir()
    (tables / "authors.csv").write_text("author,age\nann,30\nbob,31\ncy,32\n")
    (tables / "knows.csv").write_text("author,friend\nann,bob\nbob,cy\ncy,ann\n")
    cites = graph.edges["paper:cites:paper"]
    damaged = {
        **graph.edges,
        "paper:cites:paper": Edges([*cites.src, cites.src[0], 3], [*cites.dst, cites.dst[0], 3]),
    }
    replace(graph, edges=damaged, edge_values=[]).write(folder / "graphs/damaged")


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graphs(tmp_path)
    np.save("node_emb.npy", np.ones((40, 4)))
    monkeypatch.setenv("PATH", tools_on_path(os.environ["PATH"]))
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")  # more ranks than cores
    for variable, value in mpi_environment().items():
        monkeypatch.setenv(variable, value)
    if name == "manifest-last":
        run_commands("partition-ops run graphs/citations out/citations --num-parts 2", called)
    run_blocks(DOCS / f"{name}.md", called)


INDENTED = {"docs/estimate": 1, "docs/growth": 2, "docs/schedule": 1, "docs/verify": 0, "README": 6}


@pytest.mark.parametrize("name", INDENTED)
def test_indented_commands_and_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called
) -> None:
    """Those of partition-ops that do not name S3 or a placeholder; the README's code has its own test."""
    monkeypatch.chdir(tmp_path)
    write_graphs(tmp_path)
    page = ROOT / f"{name}.md"
    if name in ("docs/estimate", "docs/schedule"):
        library().write(tmp_path / "my-graph")
    if name == "docs/schedule":
        run_commands("partition-ops run my-graph out/citations --num-parts 2", called)
    if name == "docs/verify":
        run_commands("partition-ops run graphs/mag out/mag --num-parts 2", called)
    commands = [
        line
        for line in indented_commands(page)
        if line[:9] == "partition" and not re.search("s3:|INPUT", line)
    ]
    assert len(commands) == INDENTED[name]
    for line in commands:
        run_commands(line, called)
    if name != "README":
        np.save("paper_embeddings.npy", np.ones((40, 4), np.float32))
        run_blocks(page, called)
