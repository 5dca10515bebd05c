"""The optional stages ``cache`` and ``probe``, and stages of other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.operators.base import Config, GraphStageOperator
from graph_partitioning.options import is_true
from partition_ops.artifacts.stage import find_stage
from partition_ops.options.values import build, parse_settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class OptionalStageOperator(GraphStageOperator):
    """Base of the operators of stages that an option switches on.

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "enabled")

    def __init__(self, *, enabled: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enabled = enabled

    def execute(self, context: Context) -> Any:
        if not is_true(self.enabled):
            option = find_stage(self.stage).optional
            raise AirflowSkipException(f"Skipped because the param {option!r} is false")
        return super().execute(context)


class RunStageOperator(OptionalStageOperator):
    """Runs a stage of another package, which `partition_graph` adds if the package is installed.

    Args:
        stage: Name of the stage.
        stage_options: Its options, as values or as text from templates, and, if its function takes them,
            ``previous``, an earlier run or ``latest``, and ``expectations_uri``.
        kwargs: As for `OptionalStageOperator`.
    """

    template_fields: Sequence[str] = (*OptionalStageOperator.template_fields, "stage_options")

    def __init__(self, *, stage: str, stage_options: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stage = stage  # type: ignore[misc]
        self.stage_options = stage_options or {}

    def config(self, cls: type[Config], **more: Any) -> Config:
        settings = {**self.stage_options, "graph_name": self.graph_name}
        return build(cls, {**parse_settings(cls, settings), **more})


class CacheRowsOperator(OptionalStageOperator, stage="cache"):
    """Stores with each partition the features of the remote nodes that its trainer reads most.

    It comes after ``convert`` and before the run is published. If it may be skipped, the task that publishes
    needs a trigger rule that accepts this.

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`, and the options of `CacheConfig`, as values or as text from
            templates, such as ``cache_share="0.1"``.
    """


class ProbePartitionsOperator(OptionalStageOperator, stage="probe"):
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
