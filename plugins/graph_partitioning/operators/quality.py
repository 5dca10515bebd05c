"""The stage ``quality``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ReportQualityOperator(GraphStageOperator, stage="quality"):
    """Measures the partitions and writes a report. It comes after ``convert``.

    After a `LockGraphOperator` the history of the run that was published last goes on in it.

    Example::

        ReportQualityOperator(
            task_id="quality",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            fanouts="15,10",
        )

    Args: As for `GraphStageOperator`, and the options of `SamplingOptions`, as values or as text from
        templates.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        with self.open_published(destination) as previous:
            return self.call_stage(source, destination, progress, previous=previous)
