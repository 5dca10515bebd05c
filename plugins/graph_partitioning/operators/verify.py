"""Verification of a finished run against its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphRunOperator
from partition_ops.options.declare import StageConfig

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifyRunOperator(GraphRunOperator):
    """Checks every invariant of a finished run against its input, as ``partition-ops verify`` does.

    It comes after ``publish``, and fails without retries if a check fails. The worker needs dgl, and memory
    as docs/verify.md says.

    Example::

        VerifyRunOperator(
            task_id="verify",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphRunOperator`.

    Returns:
        ``output``, the URI of the run, and ``checks``, the names of the checks, all of which passed.
    """

    def execute(self, context: Context) -> Any:
        from partition_ops.system.progress import LineProgress
        from partition_ops.verification import check_finished, verify_output

        progress = LineProgress(self.log.info)
        with self.opened(progress) as (source, destination):
            check_finished(destination)
            name = self.config(StageConfig).graph_name
            report = verify_output(source, destination, graph_name=name, progress=progress)
            for line in report.summary().splitlines():
                self.log.info("%s", line)
            report.raise_for_failures()
            return {"output": destination.uri, "checks": [check.name for check in report.checks]}
