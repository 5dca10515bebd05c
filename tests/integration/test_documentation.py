"""The blocks of pages that need no servers run on a small graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import Called
from tests.graphs import Edges, library
from tests.pages import run_blocks, run_commands

pytestmark = pytest.mark.long
DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["partition", "repair", "manifest-last"]


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
    if name == "manifest-last":
        run_commands("partition-ops run graphs/citations out/citations --num-parts 2", called)
    run_blocks(DOCS / f"{name}.md", called)
