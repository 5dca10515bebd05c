"""Print the progress of a DAG run, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from local_stack.airflow_api import AirflowApi, TaskState
from local_stack.processes import StackError

POLL_SECONDS = 0.7
FINISHED = {"success", "failed", "upstream_failed", "skipped", "removed"}
WORDS = {
    "running": "started",
    "failed": "FAILED",
    "up_for_retry": "failed, will be retried",
    "skipped": "skipped",
}


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
            again = f" (try {task.try_number})" if task.try_number > 1 else ""
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
