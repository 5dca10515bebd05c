"""The stage ``idmap``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.idmap.options import IdMapConfig

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ExportIdMapsOperator(GraphStageOperator, options=(IdMapConfig,)):
    """Writes the tables from original to new IDs. It comes after ``convert``.

    Example::

        ExportIdMapsOperator(
            task_id="idmap",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`, and the options of `IdMapConfig`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.idmap.export import export_id_maps

        return export_id_maps(self.config(IdMapConfig), source, destination, progress=progress)
