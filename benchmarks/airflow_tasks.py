"""Where the seconds of a run in Airflow go, by task: waiting, the task, and the work within it.

    python -m benchmarks.airflow_tasks [--folder FOLDER] [--rounds 3] [--note TEXT]

It runs ``partition_graph`` on the Python environment as a graph, on the stack of ``make up`` (of FOLDER)
or on one that it starts, once to warm up and then ``--rounds`` times, each time to another output. The
figures are those of the round with the median time.

*Wait* is the time since the end of the last task that the task had to wait for. *Task* is the time from the
start to the end in Airflow, for mapped tasks from the first start to the last end. *Work* is what the records
of the tasks say, summed over mapped tasks. Processor time is that of all services and tasks.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from graph_partitioning.runs import run_root

from local_stack.airflow import OUTPUT_URI
from local_stack.demo import DAG_ID, DAG_SECONDS, RUN_SECONDS, DemoOptions
from local_stack.example_graph import PYTHON_ENVIRONMENT, is_there, upload_graph
from local_stack.folders import Folders
from local_stack.stack import Launch, Running, refuse_if_busy, running
from local_stack.watch import RunWatch
from partition_ops.artifacts.layout import CONFIG_TASK, PART_TASK, PLAN_TASK, RECORDS, SCATTER_TASK
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.storage import open_store

RESULTS = Path(__file__).resolve().parent / "results"
RECORDED = {  # beginnings of the names of the records of a task
    "convert.plan": PLAN_TASK,
    "convert.scatter": SCATTER_TASK,
    "convert.gather": PART_TASK,
    "convert.config": CONFIG_TASK,
}


@dataclass(frozen=True)
class Row:
    """A task of the DAG, or all tasks that are mapped from it; times are seconds.

    Attributes:
        task: Name of the task.
        count: Number of tasks.
        wait: Time from the end of the last task before it to the first start.
        task_seconds: Time from the first start to the last end.
        work: Time of the work as recorded; None if the task leaves no record.
    """

    task: str
    count: int
    wait: float
    task_seconds: float
    work: float | None


@dataclass(frozen=True)
class Round:
    """One run: its time in Airflow, the processor time of all processes of the stack, and its tasks."""

    seconds: float
    processor_seconds: float
    rows: list[Row]


@contextmanager
def stack(folders: Folders) -> Iterator[Running]:
    """Use the running stack, or start one and stop it afterwards."""
    folders.make()
    found = running(folders)
    if found is not None:
        yield found
        return
    refuse_if_busy(folders)
    launch = Launch(folders, "demo", leased=True)
    try:
        yield launch.wait(print)
    finally:
        launch.stop()


def measure(found: Running) -> Round:
    """Run the DAG to its end."""
    api, run_id = found.api, f"measured__{time.strftime('%Y%m%dT%H%M%S')}_{secrets.token_hex(2)}"
    before = processor_seconds(found.state.supervisor)
    api.trigger(DAG_ID, run_id, DemoOptions(example=PYTHON_ENVIRONMENT).params())
    RunWatch(api, DAG_ID, run_id, lambda line: None).until_done(seconds=RUN_SECONDS)
    used = processor_seconds(found.state.supervisor) - before
    run = api.run(DAG_ID, run_id)
    root = run_root(OUTPUT_URI, PYTHON_ENVIRONMENT.graph_name, run_id)
    with open_store(root, found.s3.settings()) as store:
        entries = [entry.key for entry in store.list(f"{RECORDS}/") if entry.key.endswith(".json")]
        work = {record["task"]: float(record["seconds"]) for record in map(store.read_json, entries)}
        read_manifest(store)  # raises an error if the run is not finished
    rows = table(api.instances(DAG_ID, run_id), api.upstream(DAG_ID), work, _moment(run["queued_at"]))
    return Round(_moment(run["end_date"]) - _moment(run["queued_at"]), used, rows)


def table(
    instances: list[dict[str, Any]],
    upstream: Mapping[str, set[str]],
    work: Mapping[str, float],
    began: float,
) -> list[Row]:
    """Return the rows of the tasks that ran, in the order in which they started.

    Args:
        instances: Tasks of the run, as Airflow's API describes them.
        upstream: IDs of the tasks that come before each task.
        work: Seconds in each record, by the name of the recorded task.
        began: When the run was queued, in seconds since 1970.
    """
    started: dict[str, list[float]] = {}
    ended: dict[str, float] = {}
    for entry in instances:
        task = entry["task_id"]
        if entry["end_date"]:
            ended[task] = max(ended.get(task, 0.0), _moment(entry["end_date"]))
        if entry["start_date"] and entry["state"] == "success":
            started.setdefault(task, []).append(_moment(entry["start_date"]))
    rows = []
    for task, starts in sorted(started.items(), key=lambda item: min(item[1])):
        ready = max((ended[name] for name in upstream[task] if name in ended), default=began)
        begin = min(starts)
        rows.append(Row(task, len(starts), begin - ready, ended[task] - begin, _work(task, work)))
    return rows


def _work(task: str, work: Mapping[str, float]) -> float | None:
    prefix = RECORDED.get(task, task)
    found = [seconds for name, seconds in work.items() if name.rstrip("0123456789") == prefix]
    return sum(found) if found else None


def processor_seconds(supervisor: int) -> float:
    """Return the processor time of the stack's services and of all their children, also of finished ones."""
    total = 0.0
    for process in psutil.Process(supervisor).children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def page(rounds: list[Round], note: str) -> str:
    """Return the results as a page in Markdown."""
    ordered = sorted(rounds, key=lambda one: one.seconds)
    shown = ordered[(len(ordered) - 1) // 2]
    work = sum(row.work or 0.0 for row in shown.rows)
    times = ", ".join(f"{one.seconds:.1f}" for one in rounds)
    used = statistics.median(one.processor_seconds for one in rounds)
    lines = [
        "# The demo's graph in Airflow, by task",
        "",
        f"`python -m benchmarks.airflow_tasks --rounds {len(rounds)}`: seconds of the run with the median"
        f" time, {shown.seconds:.1f} s of {times} s; {used:.0f} s of processor time. {note}".rstrip(),
        "",
        "| task | tasks | wait | task | work |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in shown.rows:
        done = "" if row.work is None else f"{row.work:.1f}"
        lines.append(f"| {row.task} | {row.count} | {row.wait:.1f} | {row.task_seconds:.1f} | {done} |")
    sums = (sum(row.count for row in shown.rows), sum(row.wait for row in shown.rows))
    spent = sum(row.task_seconds for row in shown.rows)
    lines.append(f"| sum | {sums[0]} | {sums[1]:.1f} | {spent:.1f} | {work:.1f} |")
    lines += ["", "Tasks that run at the same time are in the sums twice."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="folder of the stack, instead of .local")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--note", default="", help="what to say about the machine")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    folders = Folders(args.folder.absolute()) if args.folder else Folders()
    with stack(folders) as found:
        found.api.wait_for_dag(DAG_ID, seconds=DAG_SECONDS)
        if not is_there(PYTHON_ENVIRONMENT, found.s3):
            graph = PYTHON_ENVIRONMENT.write(folders)
            upload_graph(PYTHON_ENVIRONMENT, graph, found.s3.settings())
        print(f"warming up: {measure(found).seconds:.1f} s", flush=True)
        rounds = []
        for _ in range(args.rounds):
            rounds.append(measure(found))
            print(
                f"{rounds[-1].seconds:.1f} s, {rounds[-1].processor_seconds:.1f} s of processor", flush=True
            )
    text = page(rounds, args.note)
    (args.output / "airflow_tasks.md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
