"""The lock of a graph, which lets one run at a time work on it, and its scratch files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import timezone
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowRuntimeError

from graph_partitioning.operators.base import GraphRunOperator
from graph_partitioning.operators.task_messages import fail
from graph_partitioning.runs import lock_holder

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

    from partition_ops.artifacts.lock_document import Lock

WAIT = timedelta(seconds=30)
PATIENCE = timedelta(hours=24)
ENDED = ("success", "failed")


class LockGraphOperator(GraphRunOperator):
    """Takes the lock of a graph, ``<output_uri>/<graph>/lock.json``, and records the newest published run.

    While another run holds it, the task waits without a worker slot. A lock is taken over if the DAG run that
    holds it has ended. The lock of another Airflow, or of a run that was removed, is taken over if it has not
    been renewed for a day, or for a day longer than an approval may take. The log says so.
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
            held = take_lock(root, holder, abandoned=lambda lock: abandoned(lock, context))
            if held is None:
                beginning = begin_run(destination, root, holder, source=self.input_uri)
                try:
                    check_still_latest(destination, root)
                except ConflictError:  # the run was cleared after others had been published
                    release_lock(root, holder)
                    raise
                return {"latest": beginning["latest"]}
        wait_for_lock(held, context, self.log, self.wait, self.patience)


def wait_for_lock(
    held: Lock, context: Context, log: Logger, wait: timedelta, patience: timedelta
) -> NoReturn:
    """Let a task wait without a worker slot while another run holds the lock of a graph.

    Args:
        held: The lock of the other run.
        context: Context of the task.
        log: Log of the task.
        wait: Time until the next attempt.
        patience: Longest time to wait, since the first attempt.

    Raises:
        AirflowRescheduleException: The next attempt is to come.
        AirflowFailException: The task has waited for too long.
    """
    from partition_ops.artifacts.lock_document import describe_lock

    now = timezone.utcnow()
    since = context["ti"].get_first_reschedule_date(context) or now
    if now - since > patience:
        fail(f"The graph is in use: {describe_lock(held)}. Waited {patience}.")
    log.info("The graph is in use: %s. The next attempt is in %s.", describe_lock(held), wait)
    raise AirflowRescheduleException(now + wait)


def abandoned(lock: Lock, context: Context) -> str | None:
    """Return why a lock no longer counts, or None if it counts."""
    from partition_ops.artifacts.lock import end_reason, expiry_reason

    holder, ours = lock["holder"], lock_holder(context)
    if not {"dag_id", "run_id"} <= holder.keys():
        return end_reason(lock)
    if holder.get("airflow", ours["airflow"]) != ours["airflow"]:
        return expiry_reason(lock)
    try:
        state = context["ti"].get_dagrun_state(dag_id=str(holder["dag_id"]), run_id=str(holder["run_id"]))
    except AirflowRuntimeError:  # the run was removed
        return expiry_reason(lock)
    return f"its DAG run has ended ({state})" if state in ENDED else None


class RemoveScratchOperator(GraphRunOperator):
    """Removes the scratch files of ``convert``, the buckets between scatter and gather.

    It is a teardown of the tasks that write them, and runs after the tasks that read them, even if those
    failed. If a reader is cleared later, the writers run again, because they are its setups.

    Args: As for `GraphRunOperator`.
    """

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.layout import CONVERT_SCRATCH
        from partition_ops.artifacts.records import remove_leftovers

        with self.opened() as (_, destination), self.fenced(context, destination):
            remove_leftovers(destination, CONVERT_SCRATCH)


class ReleaseGraphOperator(GraphRunOperator):
    """Removes remaining scratch files of the run, and releases the lock of its graph.

    If the run does not hold the lock any more, nothing is changed. Then the task fails if the run has not
    been published: Airflow skips the tasks of a DAG run that somebody marks as failed between two tasks, and
    would call it a success. For this, the teardown is one that may fail the DAG run::

        release.as_teardown(setups=lock, on_failure_fail_dagrun=True)

    Args: As for `LockGraphOperator`.
    """

    def execute(self, context: Context) -> Any:
        if not self._release(context):
            fail("Nothing was published: a task has failed, or somebody marked the DAG run as failed.")

    def _release(self, context: Context) -> bool:
        """Release the lock, and return whether the run is published."""
        from partition_ops.artifacts.latest import latest_run
        from partition_ops.artifacts.layout import MANIFEST, SCRATCH
        from partition_ops.artifacts.lock import holding, holds_lock, release_lock
        from partition_ops.artifacts.records import remove_leftovers

        with self.opened() as (_, destination), self.graph_of(destination) as root:
            holder = lock_holder(context)
            if not holds_lock(root, holder):
                self.log.warning("The lock of %s was no longer held", root.uri)
                return destination.exists(MANIFEST)
            with holding(root, holder, destination):
                remove_leftovers(destination, SCRATCH)
            published = latest_run(root) == destination.uri and destination.exists(MANIFEST)
            release_lock(root, holder)
            return published
