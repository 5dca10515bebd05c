"""The lock of a graph, which lets one run at a time work on it, and its scratch files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import timezone
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowRuntimeError

from graph_partitioning.operators.base import GraphRunOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.lock import Lock

WAIT = timedelta(seconds=30)
PATIENCE = timedelta(hours=24)
ENDED = ("success", "failed")


class LockGraphOperator(GraphRunOperator):
    """Takes the lock of a graph, ``<output_uri>/<graph>/lock.json``, and records the newest published run.

    While another run holds it, the task waits without a worker slot. A lock is taken over if the DAG run that
    holds it has ended, or if it is older than a day and this Airflow does not know that run; the log says so.
    The operator comes before ``partition``, and `ReleaseGraphOperator` is its teardown::

        lock = LockGraphOperator(task_id="lock", **where).as_setup()
        release = ReleaseGraphOperator(task_id="release", **where).as_teardown(setups=lock)

    Args:
        wait: Time between two attempts.
        patience: Longest time to wait.
        kwargs: As for `GraphRunOperator`; there must be a ``run_id``.

    Returns:
        ``latest``: URI of the run that was published last when this one started, or None.
    """

    def __init__(self, *, wait: timedelta = WAIT, patience: timedelta = PATIENCE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait = wait
        self.patience = patience

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.latest import begin_run, check_still_latest
        from partition_ops.artifacts.lock import release_lock, take_lock
        from partition_ops.errors import ConflictError

        holder = lock_holder(context)
        with self.opened() as (_, destination), self.graph_of(destination) as root:
            held = take_lock(root, holder, abandoned=lambda lock: self._abandoned(lock, context))
            if held is None:
                beginning = begin_run(destination, root, holder)
                try:
                    check_still_latest(destination, root)
                except ConflictError:  # the run was cleared after others had been published
                    release_lock(root, holder)
                    raise
                return {"latest": beginning["latest"]}
        return self._wait(held, context)

    def _wait(self, held: Lock, context: Context) -> None:
        from partition_ops.artifacts.lock import describe_lock

        now = timezone.utcnow()
        since = context["ti"].get_first_reschedule_date(context) or now
        if now - since > self.patience:
            raise AirflowFailException(f"The graph is in use: {describe_lock(held)}. Waited {self.patience}.")
        self.log.info("The graph is in use: %s. The next attempt is in %s.", describe_lock(held), self.wait)
        raise AirflowRescheduleException(now + self.wait)

    def _abandoned(self, lock: Lock, context: Context) -> str | None:
        from partition_ops.artifacts.lock import expiry_reason

        holder = lock["holder"]
        if not {"dag_id", "run_id"} <= holder.keys():
            return expiry_reason(lock)
        try:
            state = context["ti"].get_dagrun_state(dag_id=str(holder["dag_id"]), run_id=str(holder["run_id"]))
        except AirflowRuntimeError:  # the run was removed, or belongs to another Airflow
            return expiry_reason(lock)
        return f"its DAG run has ended ({state})" if state in ENDED else None


class RemoveScratchOperator(GraphRunOperator):
    """Removes the scratch files of a run, the buckets between scatter and gather.

    It is a teardown of the tasks that write them, and runs after the tasks that read them, even if those
    failed. If a reader is cleared later, the writers run again, because they are its setups.

    Args: As for `GraphRunOperator`.
    """

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.layout import SCRATCH

        with self.opened() as (_, destination):
            destination.delete_prefix(f"{SCRATCH}/")


class ReleaseGraphOperator(GraphRunOperator):
    """Releases the lock of a graph, and removes remaining scratch files of the run.

    Args: As for `LockGraphOperator`.
    """

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.layout import SCRATCH
        from partition_ops.artifacts.lock import release_lock

        with self.opened() as (_, destination), self.graph_of(destination) as root:
            destination.delete_prefix(f"{SCRATCH}/")
            if not release_lock(root, lock_holder(context)):
                self.log.warning("The lock of %s was no longer held", root.uri)


def lock_holder(context: Context) -> dict[str, str]:
    """Return the identity of a DAG run in a lock."""
    ti = context["ti"]
    return {"dag_id": ti.dag_id, "run_id": ti.run_id}
