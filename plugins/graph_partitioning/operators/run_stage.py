"""Stages without an operator of their own, such as those of other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graph_partitioning.operators.base import Config, OptionalStageOperator
from graph_partitioning.operators.task_messages import explain_failures
from partition_ops.artifacts.stage import find_stage
from partition_ops.options.values import build, parse_settings


class RunStageOperator(OptionalStageOperator):
    """Runs a stage that has no operator of its own, such as one of another package.

    `partition_graph` has a task with this operator for each stage that it does not name. If an option of the
    stage switches it on, the task is skipped without this option.

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

    def is_wanted(self) -> bool:
        with explain_failures(self.log):
            own = getattr(self.stage_config(), find_stage(self.stage).optional, True)
        return bool(own) and super().is_wanted()
