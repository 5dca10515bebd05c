"""The stage ``prepare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.prepare.options import PrepareConfig

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class PrepareGraphOperator(GraphStageOperator, options=(PrepareConfig,)):
    """Writes the graph as the partitioning engines read it. It comes after ``schema``.

    Example::

        PrepareGraphOperator(
            task_id="prepare",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`, and the options of `PrepareConfig`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.prepare.prepare import prepare_graph

        return prepare_graph(self.config(PrepareConfig), source, destination, progress=progress)
