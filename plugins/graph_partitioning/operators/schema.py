"""The stage ``schema``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.schema.options import SchemaConfig

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class WriteSchemaOperator(GraphStageOperator):
    """Writes the homogeneous ID range of every type. It comes after ``validate``.

    Example::

        WriteSchemaOperator(
            task_id="schema",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.schema.schema import write_schema

        return write_schema(self.config(SchemaConfig), source, destination, progress=progress)
