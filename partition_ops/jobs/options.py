"""Options of the whole job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from partition_ops.errors import UsageError
from partition_ops.options.gate import Gate
from partition_ops.options.mpi import MpiOptions
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.options import DRIFT, MIGRATION_PRICE, Balance, Objective, PartitionConfig
from partition_ops.stages.validate.options import ValidateConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Options of the whole job, handed on to the stages.

    Attributes: As in the configurations of the stages, and

        ignore_estimate: Begin even a job for which there is too little memory or disk, as it seems.
        check_artifacts: Read what an earlier call has left, and make again what has another content now.
        probe: Also sample as the trainers would, for the quality report.
    """

    num_parts: int
    graph_name: str | None = None
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
    on_defect: str | Mapping[str, str] = "fail"
    memory: int | None = None
    data_docs: bool = False
    num_hops: int = 1
    graph_formats: tuple[str, ...] = ("coo",)
    ignore_estimate: bool = False
    check_artifacts: bool = False
    probe: bool = False
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        _ = (self.validate, self.partition, self.convert)  # a wrong option is refused here, before any work
        if self.probe and self.num_hops == 0 and self.num_parts > 1:
            raise UsageError(
                "Without a halo there is nothing to probe: no edge leads from one partition to another",
                found="--num-hops 0",
                expected="1 or more",
            )

    @property
    def validate(self) -> ValidateConfig:
        return ValidateConfig(
            graph_name=self.graph_name,
            on_defect=self.on_defect,
            memory=self.memory,
            data_docs=self.data_docs,
        )

    @property
    def convert(self) -> ConvertConfig:
        return ConvertConfig(
            graph_name=self.graph_name,
            memory=self.memory,
            num_hops=self.num_hops,
            graph_formats=self.graph_formats,
        )

    @property
    def partition(self) -> PartitionConfig:
        names = [option.name for option in fields(PartitionConfig)]
        return PartitionConfig(**{name: getattr(self, name) for name in names})
