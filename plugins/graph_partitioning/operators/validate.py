"""The stage ``validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator

if TYPE_CHECKING:
    from partition_ops.progress import Progress
    from partition_ops.storage import Store
    from partition_ops.tasks import StageResult


class ValidateGraphOperator(GraphStageOperator):
    """Checks a graph before anything is computed from it.

    Example::

        ValidateGraphOperator(
            task_id="validate",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        on_defect: What to do about duplicate and self-loop edges: ``fail``, ``exclude``, ``drop`` or
            ``warn``; or a dict with the action of each check of `partition_ops.checks`.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "on_defect")

    def __init__(self, *, on_defect: str | Mapping[str, str] = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_defect = on_defect

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import ValidateConfig
        from partition_ops.validate import validate_graph

        config = ValidateConfig(**self.graph, on_defect=self.on_defect)
        return validate_graph(config, source, destination, progress=progress)
