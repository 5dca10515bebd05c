"""The blocks of pages that need no servers run in their order, on a small graph.

``bash exit code 3`` is a block whose command must end with this code. Commands of partition-ops run in this
process, other lines in a shell. Pages with blocks for several machines are run by tests of their own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partition_ops.cli import main
from tests.e2e.guide import blocks_of
from tests.graphs import Edges, library

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["partition", "repair", "manifest-last"]


def run_commands(script: str, *, code: int) -> None:
    """Run the lines of a block; the last one must end with ``code``, the others with 0."""
    lines = [line for line in script.replace("\\\n", " ").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        words = shlex.split(line, comments=True)
        if words and words[0] == "partition-ops":
            ended = main(words[1:])
        else:
            ended = subprocess.run(["bash", "-euc", line], check=False, timeout=60).returncode
        assert ended == (code if number == len(lines) else 0), line


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
def test_every_block_of_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_graphs(tmp_path)
    if name == "manifest-last":
        run_commands("partition-ops run graphs/citations out/citations --num-parts 2", code=0)
    names: dict[str, Any] = {}
    blocks = blocks_of(DOCS / f"{name}.md")
    assert blocks
    for block in blocks:
        if block.language == "bash":
            code = re.fullmatch(r"(?:exit code (\d+))?", block.how)
            assert code is not None, block.how
            run_commands(block.text, code=int(code[1] or 0))
        else:
            assert (block.language, block.how) == ("python", "")
            exec(compile(block.text, name, "exec"), names)
