"""The stage ``convert``: plan, scatter each group of edges, gather each partition, write book and config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.artifacts.layout import CONFIG_TASK, PART_TASK, PLAN_TASK, SCATTER_TASK

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ConvertOperator(GraphStageOperator, stage="convert"):
    """Base of the tasks of ``convert``; all tasks of a run must have the same options.

    Args: As for `GraphStageOperator`, and the options of `ConvertConfig`, as values or as text from
        templates, such as ``graph_formats="coo,csc"``.
    """


class PlanConversionOperator(ConvertOperator, task=PLAN_TASK):
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

    def run_tasks(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        from partition_ops.stages.convert.context import Conversion
        from partition_ops.stages.convert.plan import task_groups

        results = self.plan(source, destination, progress)
        self._groups = task_groups(Conversion(self.stage_config(), source, destination))
        return results

    def plan(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        """Make the plan."""
        return super().run_tasks(source, destination, progress)

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[list[int]]:
        return self._groups.scatters


class ListPartitionsOperator(PlanConversionOperator):
    """Returns the numbers of the partitions that each gather has, to map it over. It comes after the plan.

    Args: As for `ConvertOperator`.
    """

    def plan(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        """Return the plan that is there, or make it."""
        from partition_ops.artifacts.tasks import Task

        result = Task.recorded(destination, PLAN_TASK).find_result(check="record")
        return super().plan(source, destination, progress) if result is None else [result]

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[list[int]]:
        return self._groups.gathers


class ScatterEdgesOperator(ConvertOperator, task=SCATTER_TASK):
    """Sends the edges of groups of chunks to the buckets of their partitions. It comes after the plan.

    Args:
        group: Number of the group, from 0, or a list of numbers.
        kwargs: As for `ConvertOperator`.
    """


class GatherPartitionOperator(ConvertOperator, task=PART_TASK):
    """Builds partitions from their buckets. It comes after every scatter.

    Args:
        part: Number of the partition, from 0, or a list of numbers.
        kwargs: As for `ConvertOperator`.
    """


class WritePartitionConfigOperator(ConvertOperator, task=CONFIG_TASK):
    """Writes the book and the configuration files of all formats. It comes after all gathers.

    Args: As for `ConvertOperator`.
    """
