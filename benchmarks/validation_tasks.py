"""Measure ``validate`` or ``prepare`` in several tasks, in the processes in which Airflow runs them.

    python -m benchmarks.validation_tasks GRAPH [--stage validate] [--tasks 1,4] [--memory SIZE]

GRAPH is written by ``python -m benchmarks.mag_graph GRAPH``. For each number of tasks, this prints the peak
memory and the processor seconds of each process, and compares them with those of the first number. The
report or the prepared graph must have the same bytes. Peak memory is that of the process, with and without
the pages of files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import Cost, measure
from partition_ops.artifacts.layout import (
    PREPARE_GATHER,
    PREPARE_SCATTER,
    PREPARED_GRAPH,
    VALIDATE_GATHER,
    VALIDATE_SCATTER,
    VALIDATION_REPORT,
)
from partition_ops.stages.prepare import spread as prepare
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.validate import spread as validate
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of

KINDS = {
    "validate": (VALIDATE_SCATTER, VALIDATE_GATHER, VALIDATION_REPORT),
    "prepare": (PREPARE_SCATTER, PREPARE_GATHER, PREPARED_GRAPH),
}
TASK = """
import sys
from partition_ops.artifacts.stage import find_stage
from partition_ops.jobs.one_stage import run_stage, run_task
from partition_ops.options.values import parse_size
from partition_ops.storage import open_store
graph, output, stage, tasks, memory, name, *numbers = sys.argv[1:]
if stage == "validate":
    from partition_ops.stages.validate.options import ValidateConfig
    memory = parse_size(memory) if memory else None
    config = ValidateConfig(validation_tasks=int(tasks), on_defect="warn", memory=memory)
else:
    from partition_ops.stages.prepare.options import PrepareConfig
    config = PrepareConfig(prepare_tasks=int(tasks))
stage, stores = find_stage(stage), (open_store(graph), open_store(output))
if name == stage.name:
    run_stage(stage, config, *stores)
else:
    run_task(stage, name, config, *stores, numbers=[*map(int, numbers)])
"""


def shares(stage: str, graph: Path, output: Path, tasks: int) -> list[list[int]]:
    """Return the numbers of the tasks that share a process."""
    stores = LocalStore(graph), LocalStore(output)
    if tasks == 1:
        return []
    if stage == "validate":
        return validate.Spread(ValidateConfig(validation_tasks=tasks), *stores).shares
    return prepare.Spread(PrepareConfig(prepare_tasks=tasks), *stores).shares


def run(graph: Path, output: Path, stage: str, tasks: int, memory: str) -> Iterator[tuple[str, Cost]]:
    """Run a stage, and yield name and cost of each process."""
    together = shares(stage, graph, output, tasks)
    kinds = [(name, share) for name in KINDS[stage][:2] for share in together]
    for name, numbers in [*kinds, (stage, [])]:
        arguments = (str(graph), str(output), stage, str(tasks), memory, name, *map(str, numbers))
        shown = f"{name}{numbers[0]}-{numbers[-1]}" if numbers else name
        yield shown, measure([sys.executable, "-c", TASK, *arguments])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("--stage", choices=KINDS, default="validate")
    parser.add_argument("--tasks", default="1,4", help="Numbers of tasks, the first is compared with.")
    parser.add_argument("--memory", default="", help="Memory for the search, as --memory of validate.")
    arguments = parser.parse_args()
    first: tuple[int, float] | None = None
    results = set()
    for tasks in map(int, arguments.tasks.split(",")):
        with tempfile.TemporaryDirectory() as output:
            costs = []
            for name, cost in run(arguments.graph, Path(output), arguments.stage, tasks, arguments.memory):
                costs.append(cost)
                sizes = f"{cost.peak / 2**20:7,.0f} MiB, {cost.anonymous / 2**20:7,.0f} without files"
                print(f"{tasks} tasks, {name:18} {sizes}, {cost.cpu:6.2f} s of processor time", flush=True)
            results.add(sha256_of(Path(output) / KINDS[arguments.stage][2]))
        peak, cpu = max(cost.anonymous for cost in costs), sum(cost.cpu for cost in costs)
        first = first or (peak, cpu)
        print(f"{tasks} tasks: peak {peak / first[0]:.2f} times, processor time {cpu / first[1]:.2f} times")
    print("the results are the same" if len(results) == 1 else "THE RESULTS DIFFER")


if __name__ == "__main__":
    main()
