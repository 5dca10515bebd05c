"""The stage ``idmap``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ExportIdMapsOperator(GraphStageOperator):
    """Writes the tables from original to new IDs. It comes after ``convert``.

    Example::

        ExportIdMapsOperator(
            task_id="idmap",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.idmap.export import export_id_maps
        from partition_ops.stages.idmap.options import IdMapConfig

        return export_id_maps(IdMapConfig(**self.graph), source, destination, progress=progress)
