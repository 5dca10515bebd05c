"""The stage ``partition``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.ingest.options import TABLES
from partition_ops.stages.partition.options import PreviousOptions

if TYPE_CHECKING:
    from contextlib import ExitStack

    from partition_ops.storage import Store


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

    def open_arguments(self, destination: Store, stack: ExitStack) -> dict[str, Any]:
        from partition_ops.jobs.open_graph import check_continues

        found = super().open_arguments(destination, stack)
        if found["previous"] is not None and self.input_uri.endswith(TABLES):
            check_continues(destination, found["previous"])
        return found
