"""Print the progress of a DAG run, line by line, and a summary of a finished run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from local_stack.airflow_api import AirflowApi, TaskState
from local_stack.processes import StackError
from partition_ops.artifacts.layout import QUALITY_REPORT, RECORDS
from partition_ops.storage import Store

POLL_SECONDS = 0.7
FINISHED = {"success", "failed", "upstream_failed", "skipped", "removed"}
WORDS = {
    "running": "started",
    "failed": "FAILED",
    "up_for_retry": "failed, will be retried",
    "skipped": "skipped",
}
STAGES = ("validate", "schema", "prepare", "partition", "convert", "idmap", "quality", "publish")


@dataclass
class RunWatch:
    """Follows one run.

    Args:
        api: Airflow.
        dag_id: The DAG.
        run_id: The run.
        say: Takes a line.
        check: Called regularly; raises an error if waiting is pointless.
    """

    api: AirflowApi
    dag_id: str
    run_id: str
    say: Callable[[str], None]
    check: Callable[[], None] = lambda: None
    _shown: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def until_done(self, *, seconds: float) -> list[TaskState]:
        """Follow the run to its end and return its tasks.

        Raises:
            StackError: A task failed (the message names it and has its error), or the time limit was reached.
        """
        while True:
            self.check()
            state = self.api.run_state(self.dag_id, self.run_id)
            tasks = self.api.tasks(self.dag_id, self.run_id)
            for task in tasks:
                self._show(task, tasks)
            if state == "success":
                return tasks
            if state == "failed":
                raise StackError(self._failure(tasks))
            if time.monotonic() - self._began > seconds:
                raise StackError(f"The run {self.run_id} did not end within {seconds:.0f} s.")
            time.sleep(POLL_SECONDS)

    def _show(self, task: TaskState, tasks: list[TaskState]) -> None:
        now = (task.state, task.try_number)
        key = (task.task_id, task.map_index)
        if self._shown.get(key) == now:
            return
        self._shown[key] = now
        if task.state == "success":
            done = sum(state in FINISHED for state, _ in self._shown.values())
            self._line(f"{task.name} done in {task.seconds:.1f} s  ({done} of {len(tasks)})")
        elif task.state in WORDS:
            again = f" (attempt {task.try_number})" if task.try_number > 1 else ""
            self._line(f"{task.name} {WORDS[task.state]}{again}")

    def _line(self, text: str) -> None:
        self.say(f"  {time.monotonic() - self._began:6.1f} s  {text}")

    def _failure(self, tasks: list[TaskState]) -> str:
        failed = [task for task in tasks if task.state == "failed"]
        if not failed:
            return f"The run {self.run_id} failed, but none of its tasks did."
        parts = []
        for task in failed:
            error = self.api.error_of(self.dag_id, self.run_id, task)
            indented = "\n".join(f"    {line}" for line in error.splitlines())
            parts.append(f"The task {task.name} failed in attempt {task.try_number}:\n{indented}")
        return "\n".join(parts)


def print_summary(run: Store) -> None:
    """Print partitions by node types, edge cut, replication factor and seconds a stage.

    Args:
        run: Root of the run.
    """
    report = run.read_json(QUALITY_REPORT)
    print(_table(report["node_types"]))
    cut = report["edge_cut"]
    print(f"\nEdges cut           {cut['edges']:,} ({cut['fraction']:.1%})")
    print(f"Replication factor  {report['replication_factor']:.2f} copies of a node")
    keys = [entry.key for entry in run.list(f"{RECORDS}/") if entry.key.endswith(".json")]
    records = [run.read_json(key) for key in keys]
    seconds = stage_seconds(records)
    print("Seconds             " + "  ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items()))


def stage_seconds(records: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each stage, in order; the tasks of a stage are added up."""
    spent = dict.fromkeys(STAGES, 0.0)
    for record in records:
        stage = next((stage for stage in STAGES if record["task"].startswith(stage)), None)
        if stage is not None:
            spent[stage] += record["seconds"]
    return spent


def _table(types: dict[str, dict[str, Any]]) -> str:
    """Return a table with a row for each partition, a column for each node type, and the imbalance."""
    header = ["partition", *types]
    parts = zip(*(entry["per_part"] for entry in types.values()), strict=True)
    rows = [[str(part), *(f"{count:,}" for count in counts)] for part, counts in enumerate(parts)]
    rows.append(["imbalance", *(f"{entry['imbalance']:.3f}" for entry in types.values())])
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    return "\n".join(lines)
