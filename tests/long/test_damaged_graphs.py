"""Hundreds of damaged graphs: each is rejected with an error of ours, or its output passes verification."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.errors import PartitionOpsError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.verification import verify_output
from tests.damage import base_graphs, damage

GRAPHS = base_graphs()
ACTIONS = ("warn", "drop", "exclude", "fail")
SEEDS = 504
BLOCKS = 12
PATIENCE = 120  # seconds for one graph of 14 nodes


def run_damaged(folder: Path, seed: int) -> str:
    """Run one damaged graph; return ``refused`` or ``passed``, or raise what is not allowed."""
    name = list(GRAPHS)[seed % len(GRAPHS)]
    graph = GRAPHS[name].write(folder / "graph")
    what = f"seed {seed}: {name}: {damage(graph, seed)}"
    source, destination = open_store(str(graph)), open_store(str(folder / "out"))
    began = time.monotonic()
    try:
        run_job(
            RunConfig(num_parts=2, engine="random", on_defect=ACTIONS[seed % 7 % 4], ignore_estimate=True),
            source,
            destination,
        )
    except PartitionOpsError as error:
        assert error.exit_code == 3, f"{what}: {error!r}"
        assert not error.transient, what
        assert not destination.exists(layout.MANIFEST), what
        outcome = "refused"
    else:
        report = verify_output(source, destination)
        assert report.passed, f"{what}: {report.summary()}"
        outcome = "passed"
    assert time.monotonic() - began < PATIENCE, what
    return outcome


@pytest.mark.filterwarnings("ignore")  # numpy warns of damaged headers
@pytest.mark.parametrize("block", range(BLOCKS))
def test_damage_is_refused_or_harmless(tmp_path: Path, block: int) -> None:
    outcomes = {"refused": 0, "passed": 0}
    for seed in range(block, SEEDS, BLOCKS):
        outcomes[run_damaged(tmp_path / str(seed), seed)] += 1
    assert outcomes["refused"] > outcomes["passed"]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_undamaged_graphs_pass(tmp_path: Path, name: str) -> None:
    source, destination = (
        open_store(str(GRAPHS[name].write(tmp_path / "graph"))),
        open_store(f"{tmp_path}/out"),
    )
    run_job(RunConfig(num_parts=2, engine="random", ignore_estimate=True), source, destination)
    assert verify_output(source, destination).passed
