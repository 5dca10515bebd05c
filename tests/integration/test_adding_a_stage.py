"""The stage that CONTRIBUTING.md adds, in a package of its own, is found wherever stages are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from partition_ops.artifacts.stage import ENTRY_POINTS
from tests.contributing import ROOT, code_block
from tests.graphs import library

STAGE = "largest-type"
DAG = """
import runpy
dag = runpy.run_path("dags/partition_graph.py")["dag"]
task = dag.get_task("largest-type")
print(sorted(task.upstream_task_ids), sorted(task.downstream_task_ids), task.stage_options, task.enabled)
print(dag.params["least_nodes"], dag.get_task("publish").trigger_rule)
"""
FIGURES = """
import sys
from partition_ops.artifacts.run_figures import seconds_by_stage
from partition_ops.artifacts.tasks import Task
from partition_ops.jobs.options import RunConfig
from partition_ops.storage import open_store
out = open_store(sys.argv[1])
print(*seconds_by_stage(out))
print([stage.name for stage in RunConfig(num_parts=2).stages()])
out.delete(["largest_type/type.json"])
print(Task.recorded(out, "largest-type").status().reason)
"""
CALLS = """
import json, sys
from partition_ops.cli import main
for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
    print("\\f")
"""
Python = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Return a function that runs Python where the package is installed, and returns what it prints."""
    for name in ("__init__.py", "write.py"):
        file = tmp_path / "installed/largest_type" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code_block(f"largest_type/{name}"))
    metadata = tmp_path / "installed/largest_type-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: largest-type\nVersion: 1.0\n")
    entry = f"{STAGE} = largest_type:STAGE"
    assert entry in (ROOT / "CONTRIBUTING.md").read_text().replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{entry}\n")

    def run(*command: object, code: int = 0) -> str:
        path = os.pathsep.join(map(str, (tmp_path / "installed", ROOT, ROOT / "plugins")))
        environment = {**os.environ, "PYTHONPATH": path}
        words = [sys.executable, *map(str, command)]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def calls(python: Python, *commands: list[str]) -> list[str]:
    """Return what commands print, called one after the other in one process."""
    return python("-c", CALLS, json.dumps(commands)).split("\f\n")[:-1]


def test_the_stage_is_in_the_job_its_records_its_figures_and_the_estimate(
    python: Python, tmp_path: Path
) -> None:
    graph, out = str(library(papers=50).write(tmp_path / "in")), str(tmp_path / "out")
    run = ["run", graph, out, "--num-parts", "2", "--engine", "random"]
    alone = [STAGE, graph, "--output", out, "--json"]
    estimate = ["estimate", graph, "--num-parts", "2", "--json"]
    without, added, again, skipped, estimated, with_it = calls(
        python,
        run,
        [*run, "--largest-type"],  # of a run that is published without it
        [*run, "--largest-type", "--json"],
        alone,
        estimate,
        [*estimate, "--largest-type"],
    )
    assert STAGE not in without and STAGE in added
    assert STAGE not in estimated and STAGE in with_it
    assert [task["skipped"] for task in json.loads(again)["tasks"] if task["task"] == STAGE] == [True]
    assert json.loads(skipped)["skipped"]
    assert json.loads((tmp_path / "out/largest_type/type.json").read_text()) == {"type": "paper"}
    assert [*json.loads((tmp_path / "out/records/largest-type.json").read_text())["after"]] == ["validate"]
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["options"][STAGE] == {"least_nodes": 1}
    assert "largest_type/type.json" in [entry["key"] for entry in manifest["artifacts"]]
    assert not json.loads(calls(python, [*alone, "--least-nodes", "1000"])[0])["skipped"]
    seconds, stages, reason = python("-c", FIGURES, out).splitlines()
    assert seconds.split()[:2] == ["validate", STAGE]
    assert STAGE not in stages
    assert reason == "largest_type/type.json is missing, or not as it was written"


@pytest.mark.parametrize("after", ["validate", "convert"])
def test_a_published_run_does_the_stage_again_with_other_options(
    after: str, python: Python, tmp_path: Path
) -> None:
    """A stage that every job has, with scratch, which ``publish`` removes."""
    file = tmp_path / "installed/largest_type/__init__.py"
    scratch = 'tasks=(StageTask("largest-type-part", each="part", scratch=True), StageTask("largest-type")),'
    text = file.read_text().replace('    optional="largest_type",\n', f"    {scratch}\n")
    text = text.replace("import Stage\n", "import Stage, StageTask\n")
    file.write_text(text.replace('after=("validate",)', f'after=("{after}",)'))
    graph, out = str(library(papers=50).write(tmp_path / "in")), str(tmp_path / "out")
    run = ["run", graph, out, "--num-parts", "2", "--engine", "random", "--json"]
    _, same, other, seeded = calls(
        python, run, run, [*run, "--least-nodes", "9"], [*run, "--least-nodes", "9", "--seed", "1"]
    )

    def done(text: str) -> set[str]:
        return {task["task"] for task in json.loads(text)["tasks"] if not task["skipped"]}

    assert done(same) == set()
    assert done(other) == {STAGE, "publish"}
    assert {"partition", "convert-part0", "publish"} <= done(seeded)
    assert STAGE not in done(seeded)


def test_the_stage_is_a_task_of_the_dag(python: Python) -> None:
    said = python("-c", DAG)
    assert "['revalidate', 'validate'] ['probe', 'publish']" in said
    assert "'least_nodes': '{{ params.least_nodes }}'" in said
    assert said.split()[-2:] == ["1", "TriggerRule.NONE_FAILED"]
