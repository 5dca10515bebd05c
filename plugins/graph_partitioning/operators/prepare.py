"""The stage ``prepare``: one task, or a plan, tasks that split the edges, and tasks that sort them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.artifacts.layout import PREPARE_GATHER, PREPARE_SCATTER
from partition_ops.stages.prepare.options import PrepareConfig

if TYPE_CHECKING:
    from airflow.sdk import Context


class PrepareGraphOperator(GraphStageOperator, stage="prepare"):
    """Writes the graph as the partitioning engines read it. It comes after ``schema``.

    Example::

        PrepareGraphOperator(
            task_id="prepare",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`, and the options of `PrepareConfig`.
    """


class PlanPreparationOperator(PrepareGraphOperator):
    """Returns the numbers of the tasks of ``prepare``, to map scatter and gather over; none for one task.

    Each mapped task gets a list of numbers. If the graph is small, a process does several, because it takes
    long to start.

    Example::

        where = {
            "input_uri": "s3://graphs/citations",
            "output_uri": "s3://partitioned",
            "run_id": "{{ run_id }}",
            "prepare_tasks": 4,
        }
        plan = PlanPreparationOperator(task_id="plan_preparation", **where)
        scatter = ScatterHalfEdgesOperator.partial(task_id="scatter_half_edges", **where)
        gather = GatherNeighboursOperator.partial(task_id="gather_neighbours", **where)
        prepare = PrepareGraphOperator(task_id="prepare", trigger_rule="none_failed", **where)
        scatter.expand(group=plan.output) >> gather.expand(range=plan.output) >> prepare

    Args: As for `PrepareGraphOperator`, with the same values.
    """

    operator_extra_links = ()

    def execute(self, context: Context) -> list[list[int]]:
        config = self.config(PrepareConfig)
        if config.prepare_tasks == 1:
            return []
        from partition_ops.stages.prepare.spread import Spread

        with self.opened() as (source, destination):
            return Spread(config, source, destination).shares


class ScatterHalfEdgesOperator(GraphStageOperator, stage="prepare", task=PREPARE_SCATTER):
    """Reads groups of the graph's edge files once, and splits their edges by range of nodes.

    Args:
        group: Number of the group, from 0, or a list of numbers.
        kwargs: As for `PrepareGraphOperator`.
    """


class GatherNeighboursOperator(GraphStageOperator, stage="prepare", task=PREPARE_GATHER):
    """Sorts the neighbours of ranges of nodes. It comes after every scatter.

    Args:
        range: Number of the range, from 0, or a list of numbers.
        kwargs: As for `PrepareGraphOperator`.
    """
