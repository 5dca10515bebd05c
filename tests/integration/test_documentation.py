"""The blocks of pages that need no servers run on a small graph."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from partition_ops.stages.partition.mpi.mpirun import mpi_environment
from tests.command_line import Called
from tests.e2e.guide import tools_on_path
from tests.graphs import Edges, library
from tests.pages import run_blocks, run_commands

pytestmark = pytest.mark.long
DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["partition", "repair", "manifest-last", "from-dgl", "from-graphstorm"]


def write_graphs(folder: Path) -> None:
    """Write the graph ``citations``, and the same one with a duplicate edge and a self-loop."""
    graph = replace(library(), name="citations")
    graph.write(folder / "graphs/citations")
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
