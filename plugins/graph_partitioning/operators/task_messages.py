"""What a running task says: failures in the words of the form, and progress, for logs, pages and alerts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.options import in_form_words
from graph_partitioning.runs import FAILURE_KEY, PROGRESS_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

    from partition_ops.errors import PartitionOpsError
    from partition_ops.system.progress import LineProgress


@contextmanager
def explain_failures(log: Logger) -> Iterator[None]:
    """Fail at once if a retry cannot help; leave all other failures to Airflow's retries."""
    from partition_ops.errors import PartitionOpsError

    try:
        yield
    except PartitionOpsError as error:
        text = in_form_words(_with_remedy(error))
        if error.transient:
            push(FAILURE_KEY, text)  # shown if this was the last attempt
            raise
        for line in error.lines():  # Airflow shows each as a line of its own
            log.error("%s", in_form_words(line))
        fail(text)


def _with_remedy(error: PartitionOpsError) -> str:
    """Return what a page or an alert says: the problem, the first finding, and what the user can do."""
    if error.remedy is None:
        return error.summary()
    return f"{error.summary().removesuffix('.')}. {' '.join(error.remedy.splitlines())}"


def fail(text: str) -> NoReturn:
    """Fail at once, and leave the reason for the pages of graphs and for alerts."""
    push(FAILURE_KEY, text)
    raise AirflowFailException(text) from None


def push(key: str, value: Any) -> None:
    """Write an XCom of the running task for the pages of graphs; do nothing outside of a task."""
    with suppress(RuntimeError):
        get_current_context()["ti"].xcom_push(key=key, value=value)


def task_progress(context: Context, log: Logger) -> LineProgress:
    """Return a progress whose lines are in the log, and the last one on the pages of graphs."""
    from partition_ops.system.progress import LineProgress

    def write(line: str) -> None:
        log.info("%s", line)
        with suppress(Exception):  # Airflow's API may not answer, which is no reason to end the work
            context["ti"].xcom_push(key=PROGRESS_KEY, value=line)

    return LineProgress(write)
