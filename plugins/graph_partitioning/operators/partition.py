"""The stage ``partition``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator, whole_number

if TYPE_CHECKING:
    from partition_ops.progress import Progress
    from partition_ops.storage import Store
    from partition_ops.tasks import StageResult


class PartitionNodesOperator(GraphStageOperator):
    """Gives every node a partition. It comes after ``prepare``.

    Example::

        PartitionNodesOperator(
            task_id="partition",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            num_parts="{{ params.num_parts }}",
            engine="metis",
        )

    Args:
        num_parts: Number of partitions.
        engine: Name of an engine of `partition_ops.partition`.
        balance: ``node-types``, ``edges`` or ``none``.
        seed: The same seed gives the same assignment.
        mpi_ranks: Processes of the engine ``parmetis``.
        hostfile: Its list of hosts, a path on the worker; ``""`` runs all ranks there.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (
        *GraphStageOperator.template_fields,
        "num_parts",
        "engine",
        "balance",
        "seed",
        "mpi_ranks",
        "hostfile",
    )

    def __init__(
        self,
        *,
        num_parts: int | str,
        engine: str = "metis",
        balance: str = "node-types",
        seed: int | str = 0,
        mpi_ranks: int | str = 2,
        hostfile: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_parts = num_parts
        self.engine = engine
        self.balance = balance
        self.seed = seed
        self.mpi_ranks = mpi_ranks
        self.hostfile = hostfile

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.config import PartitionConfig
        from partition_ops.parmetis.options import MpiOptions
        from partition_ops.partition import partition_nodes

        config = PartitionConfig(
            **self.graph,
            num_parts=whole_number("num_parts", self.num_parts),
            engine=self.engine,
            balance=self.balance,
            seed=whole_number("seed", self.seed),
            mpi=MpiOptions(ranks=whole_number("mpi_ranks", self.mpi_ranks), hostfile=self.hostfile or None),
        )
        return partition_nodes(config, source, destination, progress=progress)
