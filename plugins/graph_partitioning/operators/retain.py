"""Retention: older runs of a graph are removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.operators.base import GraphRunOperator
from graph_partitioning.settings import number, whole_number

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetainRunsOperator(GraphRunOperator):
    """Keeps the newest published runs of a graph and removes older ones. It comes after ``publish``.

    The one that ``latest.json`` names stays in any case, and so do young ones.

    Args:
        keep: Number of runs; ``""`` keeps all, and the task is skipped.
        grace_days: No run younger than that is removed.
        kwargs: As for `GraphRunOperator`; there must be a ``run_id``.

    Returns:
        URIs of the runs that were removed.
    """

    template_fields: Sequence[str] = (*GraphRunOperator.template_fields, "keep", "grace_days")

    def __init__(self, *, keep: int | str = "", grace_days: float | str = 7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep = keep
        self.grace_days = grace_days

    def execute(self, context: Context) -> Any:
        from partition_ops.jobs.retention import RetentionConfig, retain_runs

        if self.keep in ("", None):
            raise AirflowSkipException("All runs are kept: the param 'keep' is empty")
        with self.opened() as (_, destination), self.graph_of(destination) as root:
            config = RetentionConfig(
                keep=whole_number("keep", self.keep),
                grace=timedelta(days=number("grace_days", self.grace_days)),
            )
            removed = retain_runs(config, root).removed
        for uri in removed:
            self.log.info("Removed %s", uri)
        return removed
