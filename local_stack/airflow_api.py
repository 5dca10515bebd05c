"""A client for the calls of Airflow's REST API that start and watch a run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import requests

from local_stack.processes import StackError

TIMEOUT = 120.0  # seconds; services share few cores while they start
PAGE = 100
PATIENCE = 60.0  # seconds without an answer that are tolerated, for example on a busy machine
ERROR_LINES = 25


@dataclass(frozen=True)
class TaskState:
    """A task of a run, or one instance of a mapped task."""

    task_id: str
    map_index: int
    label: str
    state: str
    try_number: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.task_id} [{self.label}]" if self.map_index >= 0 else self.task_id


class AirflowApi:
    """A client that logs in itself and tolerates a slow server.

    Args:
        base_url: Address of the API server.
        user: Name to log in with.
        password: Its password; never shown.
    """

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self.base_url = base_url
        self._login = {"username": user, "password": password}
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy cannot reach 127.0.0.1

    def __repr__(self) -> str:
        return f"AirflowApi({self.base_url!r})"

    def healthy(self) -> set[str]:
        """Return the names of the components with a heartbeat; empty if the server does not answer."""
        try:
            answer = self._session.get(f"{self.base_url}/api/v2/monitor/health", timeout=TIMEOUT)
            found = answer.json() if answer.ok else {}
        except (requests.RequestException, ValueError):
            return set()
        return {name for name, value in found.items() if value and value.get("status") == "healthy"}

    def wait_for_dag(self, dag_id: str, *, seconds: float) -> None:
        """Wait until Airflow has read a DAG.

        Raises:
            StackError: It did not; the message has the errors in the DAG files.
        """
        end = time.monotonic() + seconds
        while "dag_id" not in self._call("GET", f"dags/{dag_id}", accept=(404,)):
            errors = self._call("GET", "importErrors")["import_errors"]
            if errors:
                text = "\n".join(f"{error['filename']}:\n{error['stack_trace']}" for error in errors)
                raise StackError(f"Airflow could not read its DAG files.\n{text}")
            if time.monotonic() > end:
                raise StackError(f"Airflow has not found the DAG {dag_id} within {seconds:.0f} s.")
            time.sleep(0.5)

    def trigger(self, dag_id: str, run_id: str, params: dict[str, Any]) -> None:
        """Start a run; because of its ID, repeated calls start it only once."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": params}
        self._call("POST", f"dags/{dag_id}/dagRuns", accept=(409,), json=body)

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return a run with all fields of the API."""
        found: dict[str, Any] = self._call("GET", f"dags/{dag_id}/dagRuns/{run_id}")
        return found

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.run(dag_id, run_id)["state"])

    def upstream(self, dag_id: str) -> dict[str, set[str]]:
        """Return the IDs of the tasks before each task of a DAG."""
        tasks = self._call("GET", f"dags/{dag_id}/tasks")["tasks"]
        before: dict[str, set[str]] = {task["task_id"]: set() for task in tasks}
        for task in tasks:
            for after in task["downstream_task_ids"]:
                before[after].add(task["task_id"])
        return before

    def unfinished_runs(self, dag_id: str) -> list[str]:
        """Return the IDs of queued and running runs."""
        found = self._call(
            "GET", f"dags/{dag_id}/dagRuns", params={"state": ["queued", "running"], "limit": PAGE}
        )
        return [str(run["dag_run_id"]) for run in found["dag_runs"]]

    def fail_run(self, dag_id: str, run_id: str, *, patience: float = PATIENCE) -> None:
        """Mark a run as failed, which ends its running tasks.

        Args:
            dag_id: The DAG.
            run_id: The run.
            patience: Seconds during which errors of the server are tolerated.
        """
        self._call("PATCH", f"dags/{dag_id}/dagRuns/{run_id}", patience=patience, json={"state": "failed"})

    def clear_from(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task of a run, and all tasks after it, so that they are done again."""
        what = {"dag_run_id": run_id, "task_ids": [task_id], "include_downstream": True}
        how = {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
        self._call("POST", f"dags/{dag_id}/clearTaskInstances", json={**what, **how})

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        """Return every task of a run, and every instance of mapped tasks."""
        return [_task_state(entry) for entry in self.instances(dag_id, run_id)]

    def instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the same with all fields of the API."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._call(
                "GET",
                f"dags/{dag_id}/dagRuns/{run_id}/taskInstances",
                params={"limit": PAGE, "offset": len(found)},
            )
            found += page["task_instances"]
            if len(found) >= page["total_entries"] or not page["task_instances"]:
                return found

    def error_of(self, dag_id: str, run_id: str, task: TaskState) -> str:
        """Return the errors in the log of a task's last attempt, or its last lines."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task.task_id}/logs/{task.try_number}"
        answer = self._call("GET", path, params={"map_index": task.map_index, "full_content": True})
        events = [entry for entry in answer["content"] if isinstance(entry, dict)]
        errors = [line for entry in events for line in _error_lines(entry)]
        lines = errors or [str(entry.get("event", "")) for entry in events]
        return "\n".join(lines[-ERROR_LINES:])

    def _call(
        self,
        method: str,
        path: str,
        *,
        accept: tuple[int, ...] = (),
        patience: float = PATIENCE,
        **options: Any,
    ) -> Any:
        """Return the answer as JSON; statuses in ``accept`` are not errors."""
        answer = self._send(method, path, patience, **options)
        if answer.status_code == 401:
            self._log_in()
            answer = self._send(method, path, patience, **options)
        if not answer.ok and answer.status_code not in accept:
            raise StackError(f"Airflow rejected {method} {path} ({answer.status_code}): {_detail(answer)}")
        return answer.json()

    def _send(self, method: str, path: str, patience: float, **options: Any) -> requests.Response:
        """Send a request, and retry while the server fails: SQLite may be locked for a while."""
        end = time.monotonic() + patience
        while True:
            try:
                answer = self._session.request(
                    method, f"{self.base_url}/api/v2/{path}", timeout=TIMEOUT, **options
                )
                if answer.status_code < 500 or time.monotonic() > end:
                    return answer
            except requests.RequestException as error:
                if time.monotonic() > end:
                    raise StackError(f"Airflow does not answer at {self.base_url}: {error}") from error
            time.sleep(1)

    def _log_in(self) -> None:
        try:
            answer = self._session.post(f"{self.base_url}/auth/token", json=self._login, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise StackError(f"Airflow does not answer at {self.base_url}: {error}") from error
        if not answer.ok:
            raise StackError(f"Airflow does not accept the password ({answer.status_code}).")
        self._session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _detail(answer: requests.Response) -> str:
    """Return the server's explanation of an error."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer.text
    return str(detail)[:2000]


def _task_state(entry: dict[str, Any]) -> TaskState:
    index = entry["map_index"]
    return TaskState(
        task_id=entry["task_id"],
        map_index=index,
        label=str(entry.get("rendered_map_index") or index),
        state=entry["state"] or "none",
        try_number=entry["try_number"],
        seconds=entry["duration"] or 0.0,
    )


def _error_lines(entry: dict[str, Any]) -> list[str]:
    if entry.get("level") not in ("error", "critical"):
        return []
    details = [f"{part['exc_type']}: {part['exc_value']}" for part in entry.get("error_detail") or ()]
    return [str(entry.get("event", "")), *details]
