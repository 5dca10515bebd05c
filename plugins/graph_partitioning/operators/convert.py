"""The stage ``convert``: plan, scatter each group of edges, gather each partition, write the config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator, count_partitions, whole_number

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.progress import Progress
    from partition_ops.storage import Store
    from partition_ops.tasks import StageResult


class PlanConversionOperator(GraphStageOperator):
    """Makes groups of the graph's chunks. It comes after ``partition``.

    It returns the numbers of the groups, to map the scatter over; Airflow maps over what a task returns and
    over nothing else.

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

    Args: As for `GraphStageOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import ConvertConfig
        from partition_ops.convert import plan_conversion

        return plan_conversion(ConvertConfig(**self.graph), source, destination, progress=progress)

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[int]:
        return list(range(result.counters["groups"]))


class ListPartitionsOperator(PlanConversionOperator):
    """Returns the numbers of the partitions, to map the gather over. It comes after the plan.

    Args: As for `GraphStageOperator`.
    """

    def finish(self, context: Context, result: StageResult, destination: Store) -> list[int]:
        return list(range(count_partitions(destination)))


class ScatterEdgesOperator(GraphStageOperator):
    """Sends the edges of one group to the buckets of their partitions. It comes after the plan.

    Args:
        group: Number of the group, from 0.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "group")

    def __init__(self, *, group: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import ConvertConfig
        from partition_ops.convert import scatter_edges

        group = whole_number("group", self.group)
        return scatter_edges(ConvertConfig(**self.graph), source, destination, group=group, progress=progress)


class GatherPartitionOperator(GraphStageOperator):
    """Builds one partition from its bucket. It comes after every scatter, once for each partition.

    Args:
        part: Number of the partition, from 0.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "part")

    def __init__(self, *, part: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import ConvertConfig
        from partition_ops.convert import gather_partition

        part = whole_number("part", self.part)
        return gather_partition(
            ConvertConfig(**self.graph), source, destination, part=part, progress=progress
        )


class WritePartitionConfigOperator(GraphStageOperator):
    """Writes the JSON file that ``dgl.distributed.load_partition`` takes. It comes after all gathers.

    Args: As for `GraphStageOperator`.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import ConvertConfig
        from partition_ops.convert import write_partition_config

        return write_partition_config(ConvertConfig(**self.graph), source, destination, progress=progress)
