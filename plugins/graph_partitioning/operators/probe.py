"""The stage ``probe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.operators.base import GraphStageOperator
from graph_partitioning.options import is_true
from partition_ops.stages.probe.options import ProbeConfig

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ProbePartitionsOperator(GraphStageOperator, options=(ProbeConfig,)):
    """Samples mini-batches as the trainer of each partition would, for the quality report.

    It comes after ``convert`` and before ``quality``, whose trigger rule must accept a skipped task. The
    worker needs dgl, and 32 bytes for each edge in its folder for temporary files.

    Example::

        ProbePartitionsOperator(
            task_id="probe",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`, and the options of `ProbeConfig`, as values or as text from
            templates, such as ``fanouts="10,10"``.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "enabled")

    def __init__(self, *, enabled: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enabled = enabled

    def execute(self, context: Context) -> Any:
        if not is_true(self.enabled):
            raise AirflowSkipException("Skipped because the param 'probe' is false")
        return super().execute(context)

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.probe.probe import probe_run

        return probe_run(self.config(ProbeConfig), source, destination, progress=progress)
