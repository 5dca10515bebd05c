"""The stage ``convert``: plan, scatter each group of edges, gather each partition, write book and config."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.convert.options import ConvertConfig

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ConvertOperator(GraphStageOperator, options=(ConvertConfig,)):
    """Base of the tasks of ``convert``; all tasks of a run must have the same options.

    Args: As for `GraphStageOperator`, and the options of `ConvertConfig`, as values or as text from
        templates, such as ``graph_formats="coo,csc"``.
    """

    @property
    def options(self) -> ConvertConfig:
        """The options of the stage."""
        return self.config(ConvertConfig)


class PlanConversionOperator(ConvertOperator):
    """Groups the graph's chunks. It comes after ``partition``.

    It returns the numbers of the groups that each scatter has, over which the scatter is mapped: Airflow maps
    over results of tasks only. Several groups share a task if the graph is small.

    Example::

        where = {
            "input_uri": "s3://graphs/citations",
            "output_uri": "s3://partitioned",
            "run_id": "{{ run_id }}",
        }
        plan = PlanConversionOperator(task_id="plan", **where)
        scatter = ScatterEdgesOperator.partial(task_id="scatter", **where).expand(group=plan.output)
        parts = ListPartitionsOperator(task_id="partitions", **where)
        gather = GatherPartitionOperator.partial(task_id="gather", **where).expand(part=parts.output)
        plan >> parts
        scatter >> gather >> WritePartitionConfigOperator(task_id="config", **where)

    Args: As for `ConvertOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.convert.plan import plan_conversion
        from partition_ops.stages.convert.task_groups import task_groups

        result = plan_conversion(self.options, source, destination, progress=progress)
        self._groups = task_groups(self.options, source, destination)
        return result

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[list[int]]:
        return self._groups.scatters


class ListPartitionsOperator(PlanConversionOperator):
    """Returns the numbers of the partitions that each gather has, to map it over. It comes after the plan.

    Args: As for `ConvertOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.artifacts.layout import PLAN_TASK
        from partition_ops.artifacts.tasks import Task
        from partition_ops.stages.convert.task_groups import task_groups

        result = Task.recorded(destination, PLAN_TASK).find_result(check="record")
        if result is None:
            return super().run_stage(source, destination, progress)
        self._groups = task_groups(self.options, source, destination)
        return result

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[list[int]]:
        return self._groups.gathers


class ScatterEdgesOperator(ConvertOperator):
    """Sends the edges of groups of chunks to the buckets of their partitions. It comes after the plan.

    Args:
        group: Number of the group, from 0, or a list of numbers.
        kwargs: As for `ConvertOperator`.
    """

    template_fields: Sequence[str] = (*ConvertOperator.template_fields, "group")

    def __init__(self, *, group: int | str | Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group

    @property
    def label(self) -> str:
        """The groups, to name a mapped task: ``group 0`` or ``groups 0-3``."""
        return _label("group", self.group)

    def run_tasks(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        from partition_ops.stages.convert.convert import scatter_groups

        groups = _numbers(self.group)
        return scatter_groups(self.options, source, destination, groups=groups, progress=progress)


class GatherPartitionOperator(ConvertOperator):
    """Builds partitions from their buckets. It comes after every scatter.

    Args:
        part: Number of the partition, from 0, or a list of numbers.
        kwargs: As for `ConvertOperator`.
    """

    template_fields: Sequence[str] = (*ConvertOperator.template_fields, "part")

    def __init__(self, *, part: int | str | Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    @property
    def label(self) -> str:
        """The partitions, to name a mapped task: ``part 0`` or ``parts 0-3``."""
        return _label("part", self.part)

    def run_tasks(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        from partition_ops.stages.convert.convert import gather_partitions

        parts = _numbers(self.part)
        return gather_partitions(self.options, source, destination, parts=parts, progress=progress)


class WritePartitionConfigOperator(ConvertOperator):
    """Writes the book and the configuration files of all formats. It comes after all gathers.

    Args: As for `ConvertOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.convert.write_book import write_book

        return write_book(self.options, source, destination, progress=progress)


def _numbers(value: int | str | Sequence[int]) -> list[int]:
    """Return the numbers of an argument; a template makes text of them."""
    given = json.loads(value) if isinstance(value, str) else value
    return [int(number) for number in (given if isinstance(given, Sequence) else [given])]


def _label(name: str, value: int | str | Sequence[int]) -> str:
    first, *_ = numbers = _numbers(value)
    return f"{name} {first}" if len(numbers) == 1 else f"{name}s {first}-{numbers[-1]}"
