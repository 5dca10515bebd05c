"""Retention: remove older runs of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.operators.base import GraphRunOperator
from graph_partitioning.operators.task_messages import explain_failures
from graph_partitioning.options import Retention

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetainRunsOperator(GraphRunOperator, options=(Retention,)):
    """Keeps the newest published runs of a graph and removes older ones. It comes after ``publish``.

    The run that ``latest.json`` names is always kept, and so are young ones.

    Args: As for `GraphRunOperator`, with a ``run_id``, and the options of `Retention`, as values or as text
        from templates. If ``keep`` is empty, all runs are kept and the task is skipped.

    Returns:
        URIs of the runs that were removed.
    """

    def execute(self, context: Context) -> Any:
        from partition_ops.jobs.retention import retain_runs

        with explain_failures(self.log):
            config = self.config(Retention).config()
        if config is None:
            raise AirflowSkipException("All runs are kept: the param 'keep' is empty")
        with (
            self.opened() as (_, destination),
            self.fenced(context, destination),
            self.graph_of(destination) as root,
        ):
            root.fence = destination.fence
            removed = retain_runs(config, root).removed
        for uri in removed:
            self.log.info("Removed %s", uri)
        return removed
