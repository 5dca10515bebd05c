"""Every block of the pages about tables runs, in the order of the page."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Called
from tests.contributing import ROOT
from tests.e2e.guide import blocks_of


def run_blocks(page: Path, called: Called) -> dict[str, Any]:
    """Run the blocks of a page in the working directory, and return the names that its Python defines.

    Commands of partition-ops run in this process, which saves most of their time.
    """
    names: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.language == "python":
            exec(compile(block.text, str(page), "exec"), names)
            continue
        script = ""
        for line in block.text.replace("\\\n", " ").splitlines():
            if not line.startswith("partition-ops "):
                script += f"{line}\n"
                continue
            _shell(script)
            script = ""
            command, _, file = line.partition(" > ")
            done = called(*shlex.split(command, comments=True)[1:])
            assert done.returncode == 0, done.stderr
            if file:
                Path(file).write_text(done.stdout)
        _shell(script)
    return names


def _shell(script: str) -> None:
    if script.strip():
        subprocess.run(["bash", "-euc", script], check=True, timeout=60)


def test_the_page_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_blocks(ROOT / "docs/tables.md", called)
    assert "user:rating:item" in (tmp_path / "proposal.yaml").read_text()
    for output in ("out", "out_of_dgl", "out_of_bin"):
        assert (tmp_path / output / "manifest.json").exists()
    found = names["ingest"].to_dgl("grown")
    assert {*found.nodes["user"].data} >= {"age", "country", "label", "train_mask"}
