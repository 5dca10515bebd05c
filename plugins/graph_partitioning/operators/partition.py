"""The stage ``partition``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.ingest.options import TABLES
from partition_ops.stages.partition.options import PreviousOptions

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class PartitionNodesOperator(GraphStageOperator, stage="partition", options=(PreviousOptions,)):
    """Assigns every node to a partition. It comes after ``prepare``.

    Example::

        PartitionNodesOperator(
            task_id="partition",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            num_parts="{{ params.num_parts }}",
            engine="auto",
        )

    Args: As for `GraphStageOperator`, and the options of `PartitionConfig`, as values or as text from
        templates; ``""`` means the default. ``previous`` may also be ``latest``: the run that was published
        last when this one began, as `LockGraphOperator` has noted.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.jobs.open_graph import check_continues

        with self.open_previous(destination, self.config(PreviousOptions).previous or "") as previous:
            if previous is not None and self.input_uri.endswith(TABLES):
                check_continues(destination, previous)
            return self.call_stage(source, destination, progress, previous=previous)
