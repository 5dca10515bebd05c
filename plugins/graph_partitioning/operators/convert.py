"""The stage ``convert``: plan, scatter each group of edges, gather each partition, write book and config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator, count_partitions
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

    It returns the numbers of the groups, over which the scatter is mapped: Airflow maps over results of tasks
    only.

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

        return plan_conversion(self.options, source, destination, progress=progress)

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[int]:
        return list(range(result.counters["groups"]))


class ListPartitionsOperator(PlanConversionOperator):
    """Returns the numbers of the partitions, to map the gather over. It comes after the plan.

    Args: As for `ConvertOperator`.
    """

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[int]:
        return list(range(count_partitions(destination)))


class ScatterEdgesOperator(ConvertOperator):
    """Sends the edges of one group to the buckets of their partitions. It comes after the plan.

    Args:
        group: Number of the group, from 0.
        kwargs: As for `ConvertOperator`.
    """

    template_fields: Sequence[str] = (*ConvertOperator.template_fields, "group")

    def __init__(self, *, group: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.convert.scatter import scatter_edges

        group = int(self.group)
        return scatter_edges(self.options, source, destination, group=group, progress=progress)


class GatherPartitionOperator(ConvertOperator):
    """Builds one partition from its bucket. It comes after every scatter, once for each partition.

    Args:
        part: Number of the partition, from 0.
        kwargs: As for `ConvertOperator`.
    """

    template_fields: Sequence[str] = (*ConvertOperator.template_fields, "part")

    def __init__(self, *, part: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.convert.gather import gather_partition

        part = int(self.part)
        return gather_partition(self.options, source, destination, part=part, progress=progress)


class WritePartitionConfigOperator(ConvertOperator):
    """Writes the book and the configuration files of all formats. It comes after all gathers.

    Args: As for `ConvertOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.convert.write_book import write_book

        return write_book(self.options, source, destination, progress=progress)
