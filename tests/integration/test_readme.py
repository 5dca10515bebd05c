"""The README is right: its snippet runs, its verbs exist, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from partition_ops.cli.verbs import VERBS
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from tests.graphs import library

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_code_runs_on_a_finished_output(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    code = "\n".join([*blocks, "assert len(features) == len(inputs['paper']) > 0"])
    source = open_store(str(library().write(tmp_path / "graph")))
    run_job(
        RunConfig(num_parts=2, graph_name="python_environment"), source, open_store(str(tmp_path / "out"))
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "nodes are ours" in done.stdout
    assert "paper/feat" in done.stdout


def test_the_verbs_are_those_of_the_command_line() -> None:
    verbs = set(re.findall(r"(?:`|bin/)partition-ops ([a-z][a-z-]+)", (ROOT / "README.md").read_text()))
    assert verbs <= {command.name for command in VERBS}
    assert {"run", "validate", "verify"} <= verbs


def test_the_targets_are_those_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"`?make ([a-z]+)`", page.read_text())) <= targets, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if "://" not in link:
            target = page.parent / link if link else page
            assert target.exists(), link
            assert not heading or heading in _anchors(target), f"{link}#{heading}"


def _anchors(page: Path) -> list[str]:
    """Return the anchors that a Markdown viewer gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
