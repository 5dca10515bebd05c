"""The stage ``probe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.operators.base import GraphStageOperator
from graph_partitioning.settings import is_true, whole_number

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ProbePartitionsOperator(GraphStageOperator):
    """Samples mini-batches as the trainer of each partition would, for the quality report.

    It comes after ``convert`` and before ``quality``, whose trigger rule must let a skipped task pass. The
    worker needs dgl, and 32 bytes an edge below its folder for temporary files.

    Example::

        ProbePartitionsOperator(
            task_id="probe",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        enabled: The task is skipped unless this is true; text such as ``"true"`` means it too.
        node_type: Type of the seeds; None or ``""`` for the one with ``train_mask``, else the one with most
            nodes.
        fanouts: Edges of each type for a node, by layer: numbers, or text such as ``"10,10"``.
        batch_size: Seeds of a batch.
        batches: Batches for each partition, at most.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (
        *GraphStageOperator.template_fields,
        *("enabled", "node_type", "fanouts", "batch_size", "batches"),
    )

    def __init__(
        self,
        *,
        enabled: bool | str = True,
        node_type: str | None = None,
        fanouts: Sequence[int] | str = (10, 10),
        batch_size: int | str = 1024,
        batches: int | str = 20,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.enabled = enabled
        self.node_type = node_type
        self.fanouts = fanouts
        self.batch_size = batch_size
        self.batches = batches

    def execute(self, context: Context) -> Any:
        if not is_true(self.enabled):
            raise AirflowSkipException("Nobody asked for it: the param 'probe' is false")
        return super().execute(context)

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.probe.options import ProbeConfig
        from partition_ops.stages.probe.probe import probe_run

        fanouts = self.fanouts.split(",") if isinstance(self.fanouts, str) else self.fanouts
        config = ProbeConfig(
            **self.graph,
            node_type=self.node_type or None,
            fanouts=tuple(whole_number("fanouts", fanout) for fanout in fanouts),
            batch_size=whole_number("batch_size", self.batch_size),
            batches=whole_number("batches", self.batches),
        )
        return probe_run(config, source, destination, progress=progress)
