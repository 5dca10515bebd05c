"""The stage ``partition``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator
from graph_partitioning.settings import is_true, number, whole_number

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class PartitionNodesOperator(GraphStageOperator):
    """Gives every node a partition. It comes after ``prepare``.

    Example::

        PartitionNodesOperator(
            task_id="partition",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            num_parts="{{ params.num_parts }}",
            engine="auto",
        )

    Args:
        num_parts: Number of partitions.
        engine: Name of an engine of `partition_ops.stages.partition`.
        balance: ``node-types``, ``edges`` or ``none``.
        seed: The same seed gives the same assignment.
        balance_ntypes: Name of a node feature of integers, such as a train mask: every partition gets the
            same share of the nodes with each value; ``""`` for none.
        tolerance: Largest weight of a partition over its share, such as 1.03; ``""`` for the engine's own.
        target_shares: The share of each partition, as numbers or as text such as ``"2,1,1"``; ``""`` for
            equal ones.
        objective: ``cut``, few edges between partitions, or ``vol``, little communication.
        num_trainers_per_machine: Every partition is made of so many smaller ones.
        previous: URI of an earlier finished run over the same graph, since when it has grown, or of the root
            of the graph's runs; ``latest`` for the one that was published last when this run began, as
            `LockGraphOperator` has written down; ``""`` for none.
        migration_price: How many cut edges an old node must save to move.
        drift: Partition anew when the cut is more than so many times that of the last full run.
        compare_full: Also partition anew, only to report what that would give; or text such as ``"true"``.
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
        "balance_ntypes",
        "tolerance",
        "target_shares",
        "objective",
        "num_trainers_per_machine",
        "previous",
        "migration_price",
        "drift",
        "compare_full",
        "mpi_ranks",
        "hostfile",
    )

    def __init__(
        self,
        *,
        num_parts: int | str,
        engine: str = "auto",
        balance: str = "node-types",
        seed: int | str = 0,
        balance_ntypes: str = "",
        tolerance: float | str = "",
        target_shares: Sequence[float] | str = "",
        objective: str = "cut",
        num_trainers_per_machine: int | str = 1,
        previous: str = "",
        migration_price: int | str = 1,
        drift: float | str = 1.05,
        compare_full: bool | str = False,
        mpi_ranks: int | str = 2,
        hostfile: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_parts = num_parts
        self.engine = engine
        self.balance = balance
        self.seed = seed
        self.balance_ntypes = balance_ntypes
        self.tolerance = tolerance
        self.target_shares = target_shares
        self.objective = objective
        self.num_trainers_per_machine = num_trainers_per_machine
        self.previous = previous
        self.migration_price = migration_price
        self.drift = drift
        self.compare_full = compare_full
        self.mpi_ranks = mpi_ranks
        self.hostfile = hostfile

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.partition.options import MpiOptions, PartitionConfig
        from partition_ops.stages.partition.partition import partition_nodes

        config = PartitionConfig(
            **self.graph,
            num_parts=whole_number("num_parts", self.num_parts),
            engine=self.engine,
            balance=self.balance,
            seed=whole_number("seed", self.seed),
            **self._balance_options(),
            migration_price=whole_number("migration_price", self.migration_price),
            drift=number("drift", self.drift),
            compare_full=is_true(self.compare_full),
            mpi=MpiOptions(ranks=whole_number("mpi_ranks", self.mpi_ranks), hostfile=self.hostfile or None),
        )
        with self.open_previous(destination, self.previous) as previous:
            return partition_nodes(config, source, destination, previous=previous, progress=progress)

    def _balance_options(self) -> dict[str, Any]:
        shares = self.target_shares
        if isinstance(shares, str):
            shares = [number("target_shares", share) for share in shares.split(",")] if shares else []
        return {
            "balance_ntypes": self.balance_ntypes or None,
            "tolerance": number("tolerance", self.tolerance) if self.tolerance != "" else None,
            "target_shares": tuple(shares) or None,
            "objective": self.objective,
            "num_trainers_per_machine": whole_number(
                "num_trainers_per_machine", self.num_trainers_per_machine
            ),
        }
