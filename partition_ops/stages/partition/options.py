"""Options of ``partition``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from partition_ops.errors import UsageError
from partition_ops.options.mpi import MpiOptions
from partition_ops.options.stage_config import MOST_PARTS, StageConfig, check_choice, check_num_parts

Balance = Literal["node-types", "edges", "none"]
Objective = Literal["cut", "vol"]
MOST_EDGES = 2**31 - 1  # that a node must save to move
MIGRATION_PRICE = 1
DRIFT = 1.05
INCREMENTAL = ("migration_price", "drift", "compare_full")  # options that mean something there only


def _check_shares(shares: tuple[float, ...], num_parts: int) -> None:
    if len(shares) != num_parts or not all(0 < share < float("inf") for share in shares):
        raise UsageError(
            "--target-shares does not fit the partitions",
            found=", ".join(map(str, shares)),
            expected=f"{num_parts} numbers above 0, one for each partition",
        )


def check_balance(config: PartitionConfig) -> None:
    """Refuse numbers of the balance and migration options that cannot be."""
    if config.tolerance is not None and not 1 < config.tolerance <= 100:
        raise UsageError("--tolerance is out of range", found=config.tolerance, expected="above 1, up to 100")
    if config.target_shares is not None:
        _check_shares(config.target_shares, config.num_parts)
    if not 0 <= config.migration_price <= MOST_EDGES:
        raise UsageError(
            "--migration-price is out of range", found=config.migration_price, expected=f"0 to {MOST_EDGES}"
        )
    if not 1 <= config.drift < float("inf"):
        raise UsageError("--drift is out of range", found=config.drift, expected="a number, 1 or more")
    if not 1 <= config.num_trainers_per_machine <= MOST_PARTS // config.num_parts:
        raise UsageError(
            "--num-trainers-per-machine is out of range",
            found=config.num_trainers_per_machine,
            expected=f"1 to {MOST_PARTS // config.num_parts}, with {config.num_parts} partitions",
        )


@dataclass(frozen=True, kw_only=True)
class PartitionConfig(StageConfig):
    """Options of ``partition``.

    Attributes:
        num_parts: Number of partitions.
        engine: Name of an engine in `partition_ops.stages.partition.ENGINES`.
        balance: ``node-types`` gives every partition the same share of each node type; ``edges`` the
            same share of each type's nodes and of their in-edges; ``none`` of all nodes together.
        seed: The same seed gives the same assignment.
        balance_ntypes: Name of a node feature of integers, such as a train mask: every partition gets the
            same share of the nodes with each value, within their type unless ``balance`` is ``none``.
        tolerance: Largest weight of a partition over its share, such as 1.03; None for the engine's own.
        target_shares: The share of every partition, for machines that are not equal; need not sum to 1.
        objective: ``cut``, few edges between partitions, or ``vol``, little communication.
        num_trainers_per_machine: Every partition is made of so many smaller ones, one for each trainer.
        migration_price: In an incremental run, how many cut edges an old node must save to move.
        drift: ... how many times the last full run's share of cut edges is too much: then it is a full run.
        compare_full: ... also make a full run, for the report only.
        mpi: For the engine ``parmetis``: its ranks and its library.
    """

    num_parts: int
    engine: str = "auto"
    balance: Balance = "node-types"
    seed: int = 0
    balance_ntypes: str | None = None
    tolerance: float | None = None
    target_shares: tuple[float, ...] | None = None
    objective: Objective = "cut"
    num_trainers_per_machine: int = 1
    migration_price: int = MIGRATION_PRICE
    drift: float = DRIFT
    compare_full: bool = False
    mpi: MpiOptions = field(default_factory=MpiOptions)

    def options(self) -> dict[str, Any]:
        """The options as JSON: what the assignment depends on."""
        options = asdict(self)
        options["mpi"] = {"ranks": self.mpi.ranks, "library": options["mpi"]["library"]}
        if self.engine != "parmetis":
            del options["mpi"]
        for name in INCREMENTAL:
            del options[name]
        return options

    def incremental_options(self) -> dict[str, Any]:
        """Those that the assignment of an incremental run depends on besides."""
        return {name: getattr(self, name) for name in INCREMENTAL}

    def __post_init__(self) -> None:
        check_num_parts(self.num_parts)
        check_balance(self)
        if not 0 <= self.seed < 2**31:
            raise UsageError("--seed is out of range", found=self.seed, expected="0 to 2147483647")
        check_choice("--balance", self.balance, Balance)
        check_choice("--objective", self.objective, Objective)
