"""Options of every stage: frozen, checked once, free of secrets, small enough for an XCom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from partition_ops.errors import UsageError
from partition_ops.options.check_actions import checked_actions
from partition_ops.options.gate import Gate
from partition_ops.options.mpi import MpiOptions

OnMissing = Literal["fail", "accept"]
Balance = Literal["node-types", "edges", "none"]
Objective = Literal["cut", "vol"]
PrepareFormat = Literal["parhip", "parmetis"]
MOST_PARTS = 65536
MOST_HOPS = 255
MOST_EDGES = 2**31 - 1  # that a node must save to move
GRAPH_FORMATS = ("coo", "csr", "csc")
MIGRATION_PRICE = 1
DRIFT = 1.05
INCREMENTAL = ("migration_price", "drift", "compare_full")  # options that mean something there only
WEIGHTS = "node-types|one|degree|(column|mask)=.+"


def _one_of(option: str, value: str, allowed: Any) -> None:
    choices = get_args(allowed)
    if value not in choices:
        raise UsageError(f"{option} cannot be {value!r}", expected="one of " + ", ".join(choices))


def _check_num_parts(num_parts: int) -> None:
    if not 1 <= num_parts <= MOST_PARTS:
        raise UsageError("--num-parts is out of range", found=num_parts, expected=f"1 to {MOST_PARTS}")


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
class StageConfig:
    """What every stage takes.

    Attributes:
        graph_name: Used instead of the name in ``metadata.json``.
    """

    graph_name: str | None = None

    def options(self) -> dict[str, Any]:
        """The options as JSON, for records and the manifest."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(StageConfig):
    """Options of ``validate``.

    Attributes:
        on_defect: What to do about the findings of a check, by its name: ``fail``,
            ``exclude`` (the edges stay in the graph and the partitioner does not see them), ``drop`` (they
            leave the output) or ``warn``. One word alone means duplicate and self-loop edges. What no later
            stage could work on fails whatever this says.
        memory: Bytes that the search for duplicates may take; a quarter of what there is if left out.
        data_docs: Whether Great Expectations judges the metrics and writes Data Docs. It does in any case
            where the user has expectations of their own.
    """

    on_defect: str | Mapping[str, str] = "fail"
    memory: int | None = None
    data_docs: bool = False

    @property
    def actions(self) -> dict[str, str]:
        """The action of every check about which there is a choice."""
        return checked_actions(self.on_defect)

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_defect", self.actions)  # in full, for records and the manifest
        if self.memory is not None and self.memory < 1:
            raise UsageError("--memory is out of range", found=self.memory, expected="a number of bytes")


@dataclass(frozen=True, kw_only=True)
class SchemaConfig(StageConfig):
    """Options of ``schema``."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(StageConfig):
    """Options of ``prepare``.

    Attributes:
        format: ``parhip``, the binary graph that our engines read, or ``parmetis``, its text files.
        weights: In the text, the weights of a node; see `partition_ops.formats.parmetis.node_weights`.
        attributes: In the text, names of the features that follow as attributes; ``all`` means all.
    """

    format: PrepareFormat = "parhip"
    weights: str = "node-types"
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _one_of("--format", self.format, PrepareFormat)
        if not re.fullmatch(WEIGHTS, self.weights):
            raise UsageError(
                f"--weights cannot be {self.weights!r}",
                expected="node-types, one, degree, column=FEATURE or mask=FEATURE",
            )
        if self.format == "parhip" and self.weights != "node-types":
            raise UsageError(
                "--weights is for the text of ParMETIS", remedy="Give --balance to 'partition' instead."
            )
        if self.format == "parhip" and self.attributes:
            raise UsageError(
                "--attributes is for the text of ParMETIS", remedy="Our own stages read features themselves."
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
        _check_num_parts(self.num_parts)
        check_balance(self)
        if not 0 <= self.seed < 2**31:
            raise UsageError("--seed is out of range", found=self.seed, expected="0 to 2147483647")
        _one_of("--balance", self.balance, Balance)
        _one_of("--objective", self.objective, Objective)


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(StageConfig):
    """Options of ``convert``.

    Attributes:
        memory: Bytes that it may take, which decides how many partitions are built at a time; three quarters
            of what there is if left out. The result does not depend on it.
        num_hops: How far the halo of a partition goes, as in ``dgl.distributed.partition_graph``.
        graph_formats: The sparse formats in ``graph.dgl``: some of ``coo``, ``csr`` and ``csc``.
    """

    memory: int | None = None
    num_hops: int = 1
    graph_formats: tuple[str, ...] = ("coo",)

    def __post_init__(self) -> None:
        if not 0 <= self.num_hops <= MOST_HOPS:
            raise UsageError("--num-hops is out of range", found=self.num_hops, expected=f"0 to {MOST_HOPS}")
        wrong = [name for name in self.graph_formats if name not in GRAPH_FORMATS]
        if wrong or not self.graph_formats:
            raise UsageError(
                "--graph-formats has a word that is no format",
                found=", ".join(wrong) or "nothing",
                expected="one or more of " + ", ".join(GRAPH_FORMATS),
            )
        ordered = tuple(name for name in GRAPH_FORMATS if name in self.graph_formats)
        object.__setattr__(self, "graph_formats", ordered)  # in whatever order they were named
        if self.memory is not None and self.memory < 1:
            raise UsageError("--memory is out of range", found=self.memory, expected="a number of bytes")

    def options(self) -> dict[str, Any]:
        """The options as JSON: what the partitions depend on."""
        options = asdict(self)
        del options["memory"]
        return {**options, "graph_formats": list(self.graph_formats)}


@dataclass(frozen=True, kw_only=True)
class ConvertPartitionConfig(StageConfig):
    """Options of ``convert-partition``, with the meaning that the DGL guide gives them.

    Attributes:
        graph_name: Name of the graph, by which the files of ParMETIS are found.
        num_parts: Number of partitions.
        num_node_weights: Number of weights in the node files.
        node_attr_dtype: NumPy's name of the dtype of what follows in the node files; None passes over it.
        edge_attr_dtype: The same of the edge files.
        missing_edges: What to do when an edge that the schema counts is in no file: ``fail``, or ``accept``.
    """

    graph_name: str
    num_parts: int
    num_node_weights: int
    node_attr_dtype: str | None = None
    edge_attr_dtype: str | None = None
    missing_edges: OnMissing = "fail"

    def __post_init__(self) -> None:
        _check_num_parts(self.num_parts)
        if self.num_node_weights < 0:
            raise UsageError(
                "--num-node-weights is out of range", found=self.num_node_weights, expected="0 or more"
            )
        _one_of("--missing-edges", self.missing_edges, OnMissing)


@dataclass(frozen=True, kw_only=True)
class IdMapConfig(StageConfig):
    """Options of ``idmap``.

    Attributes:
        vectors: Also write ``idmap/nodes/<type>.npy`` and ``idmap/edges/<src:rel:dst>.npy``: the vectors that
            ``dgl.distributed.partition_graph`` returns with ``return_mapping=True``.
        part_maps: Also write ``partitions/node_map.npy`` and ``partitions/edge_map.npy``: the partition of
            every node and edge, by homogeneous ID of the input graph.
    """

    vectors: bool = False
    part_maps: bool = False


@dataclass(frozen=True, kw_only=True)
class RemapConfig:
    """Options of ``idmap restore`` and ``idmap apply``: one of the two.

    Attributes:
        node_type: Name of the node type whose rows are put in another order.
        edge_type: The edge type, as ``src:rel:dst``.
    """

    node_type: str | None = None
    edge_type: str | None = None

    def __post_init__(self) -> None:
        if (self.node_type is None) == (self.edge_type is None):
            raise UsageError("Name one type", expected="either --node-type or --edge-type")


@dataclass(frozen=True, kw_only=True)
class QualityConfig(StageConfig):
    """Options of ``quality``."""


@dataclass(frozen=True, kw_only=True)
class PublishConfig(StageConfig):
    """Options of ``publish``.

    Attributes:
        run_id: Name of the run; None outside Airflow, where there is no ``latest.json`` either.
        gate: What partitions must not be worse than to be published.
    """

    run_id: str | None = None
    gate: Gate = field(default_factory=Gate)


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
