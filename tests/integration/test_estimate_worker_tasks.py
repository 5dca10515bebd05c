"""The estimate of tasks and ranks on several workers beside what they take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts.layout import (
    CONFIG_TASK,
    CONVERT_PLAN,
    PART_TASK,
    PLAN_TASK,
    PREPARE_GATHER,
    PREPARE_SCATTER,
    SCATTER_TASK,
    VALIDATE_GATHER,
    VALIDATE_SCATTER,
)
from partition_ops.jobs.estimate.workers import estimate_workers
from partition_ops.jobs.options import RunConfig
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.parallel import cores
from tests.mpi import needs_mpi

MIB = 1 << 20
FACTOR = 1.5
PEOPLE, PAGES, EDGES, FILES = 4_000_000, 2_000_000, 12_000_000, 8
WORKERS, PARTS = 2, 4
MARGIN = 16 * MIB  # what the allocator keeps
TASK = """
import sys
from partition_ops.artifacts.stage import find_stage
from partition_ops.jobs.one_stage import run_stage, run_task
from partition_ops.jobs.options import RunConfig
from partition_ops.storage import open_store
graph, output, stage, name, *numbers = sys.argv[1:]
config = RunConfig(num_parts=4, validation_tasks=2, prepare_tasks=2, data_docs=False, on_defect="exclude")
stage, stores = find_stage(stage), (open_store(graph), open_store(output))
if name:
    run_task(stage, name, config.of(stage.config), *stores, numbers=[int(number) for number in numbers])
else:
    run_stage(stage, config.of(stage.config), *stores)
with open("/proc/self/status") as status:  # rusage may count the process that started this one
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two types, in communities of about a hundred nodes."""
    folder, random = tmp_path_factory.mktemp("workers") / "in", np.random.default_rng(3)
    folder.mkdir()
    document = {
        "graph_name": "web",
        "node_type": ["person", "page"],
        "num_nodes_per_chunk": [[PEOPLE], [PAGES]],
        "edge_type": ["person:likes:page"],
        "num_edges_per_chunk": [[EDGES // FILES] * FILES],
        "edges": {"person:likes:page": {"format": {"name": "parquet"}, "data": []}},
    }
    for number in range(FILES):
        people = random.integers(0, PEOPLE, EDGES // FILES)
        pages = people // 64 * 32 + random.integers(0, 32, EDGES // FILES)
        document["edges"]["person:likes:page"]["data"].append(f"{number}.parquet")
        pq.write_table(pa.table({"src": people, "dst": pages}), folder / f"{number}.parquet")
    (folder / "metadata.json").write_text(json.dumps(document))
    return folder


@pytest.mark.long
@needs_mpi
def test_each_task_and_rank_takes_what_the_estimate_says(graph: Path, tmp_path: Path) -> None:
    config = RunConfig(num_parts=PARTS, engine="two-level", convert_tasks=64)
    found = estimate_workers(config, LocalStore(graph), workers=WORKERS, memory=8 << 30, cores=cores())
    expected = {(stage.stage, task.name): task for stage in found.stages for task in stage.tasks}
    output = tmp_path / "out"

    def run(stage: str, task: str = "", *numbers: int) -> None:
        words = [sys.executable, "-c", TASK, str(graph), str(output), stage, task, *map(str, numbers)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        measured[stage, task].append(int(done.stdout.splitlines()[-1]) << 10)

    measured: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in range(WORKERS):
        run("validate", VALIDATE_SCATTER, number)
    for number in range(WORKERS):
        run("validate", VALIDATE_GATHER, number)
    run("validate")
    run("schema")
    for task in (PREPARE_SCATTER, PREPARE_GATHER):
        for number in range(WORKERS):
            run("prepare", task, number)
    run("prepare")
    ranks = partition_over_ranks(graph, output)
    run("convert", PLAN_TASK)
    groups = json.loads((output / CONVERT_PLAN).read_text())["edges"]
    for number in range(len(groups)):
        run("convert", SCATTER_TASK, number)
    for number in range(PARTS):
        run("convert", PART_TASK, number)
    run("convert", CONFIG_TASK)

    names = {
        ("validate", "scatter"): VALIDATE_SCATTER,
        ("validate", "gather"): VALIDATE_GATHER,
        ("validate", "validate"): "",
        ("prepare", "scatter"): PREPARE_SCATTER,
        ("prepare", "gather"): PREPARE_GATHER,
        ("prepare", "prepare"): "",
        ("convert", "plan"): PLAN_TASK,
        ("convert", "scatter"): SCATTER_TASK,
        ("convert", "gather"): PART_TASK,
        ("convert", "config"): CONFIG_TASK,
    }
    said = {key: (expected[key].memory, max(measured[key[0], task])) for key, task in names.items()}
    said["partition", "rank"] = expected["partition", "rank"].memory, max(ranks[1:])
    # the estimate adds the process that starts the ranks
    said["partition", "rank 0"] = expected["partition", "partition with rank 0"].memory, ranks[0]
    assert expected["convert", "scatter"].number == len(groups)
    sizes = {key: [size // MIB for size in both] for key, both in said.items()}
    for key, (estimate, real) in said.items():
        assert estimate <= FACTOR * real + MARGIN, (key, sizes)
        assert real <= FACTOR * estimate + MARGIN, (key, sizes)


def partition_over_ranks(graph: Path, output: Path) -> list[int]:
    """Partition over two ranks on this machine; return the peak resident set of each."""
    words = ["partition", graph, "--output", output, "--num-parts", PARTS, "--engine", "two-level"]
    words += ["--mpi-ranks", WORKERS, "--verbose"]
    done = subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = re.search(r"largest memory of the MPI ranks in MiB: ([\d, ]+)", done.stderr)
    assert shown is not None, done.stderr
    return [int(size) * MIB for size in shown[1].split(", ")]
