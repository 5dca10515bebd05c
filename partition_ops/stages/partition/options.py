"""Options of ``partition``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from partition_ops.errors import UsageError
from partition_ops.options.declare import (
    MOST_PARTS,
    ROOT_PATTERN,
    Options,
    StageConfig,
    option,
    option_group,
    own_options,
)
from partition_ops.stages.partition.engines import (
    engine_names,
    engine_options,
    engine_summaries,
    recorded_options,
)
from partition_ops.traffic.options import SamplingOptions

Balance = Literal["node-types", "edges", "none"]
Objective = Literal["cut", "vol", "train"]
Effort = Literal["fast", "default", "best"]
MOST_EDGES = 2**31 - 1  # that a node can save by moving
MOST_TOLERANCE = 100
MOST_RATIO = 1_000_000  # of two shares
NO_LIMIT = NO_FEATURE = "none"
Own = TypeVar("Own")


def _with_engine_options(cls: type[Own]) -> type[Own]:
    """Add a field to a class for each engine that has options of its own."""
    for field, options in engine_options().values():
        cls.__annotations__[field] = options
        setattr(cls, field, option_group(options))
    return cls


@dataclass(frozen=True, kw_only=True)
@_with_engine_options
class PartitionConfig(StageConfig):
    """Options of ``partition``, with a field for those of each engine that has options of its own."""

    num_parts: int = option(
        help="Number of partitions: one for each machine of the distributed training.",
        title="Number of partitions",
        metavar="K",
        minimum=1,
        maximum=MOST_PARTS,
        form={"default": 4, "maximum": 1024},  # Airflow's default of [core] max_map_length
    )
    engine: str = option(
        "auto",
        help="Engine that assigns nodes to partitions. "
        + " ".join(f"{name}: {summary}" for name, summary in engine_summaries().items()),
        title="Engine",
        choices=engine_names,
    )
    balance: Balance = option(
        "node-types",
        help="Load that is equal in every partition. node-types: the nodes of each type. edges: the"
        " nodes and the in-edges of each type. none: the nodes of all types together.",
        title="Balance",
    )
    effort: Effort = option(
        "default",
        help="How long the engine auto looks for a smaller edge cut. fast: one partitioning. default: further"
        " ones and their combinations, for at most half of the processor time of the rest of the job, so that"
        " large graphs get one. best: 24 of any graph and their combinations, or with one balance constraint,"
        " up to 16 partitions and a million edges, those of default and two by Mt-KaHyPar's preset quality."
        " Other engines ignore it.",
        title="Effort",
        section="More",
    )
    seed: int = option(
        0,
        help="The same seed gives the same partitions.",
        title="Seed",
        section="More",
        metavar="N",
        minimum=0,
        maximum=2**31 - 1,
    )
    balance_ntypes: tuple[str, ...] | str | None = option(
        None,
        help="A node feature of integers, such as train_mask: every partition gets the same share of the"
        " nodes with each value, within each type unless balance is none. The option may be"
        " repeated: with train_mask and val_mask, every partition gets the same share of the nodes with each"
        " combination of values. none: no feature.",
        title="Balance by features",
        section="Balance",
        metavar="FEATURE",
        several="repeat",
        empty="train_mask, val_mask and test_mask, if the graph has them",
    )
    tolerance: float | None = option(
        None,
        help="Largest weight of a partition divided by its share, such as 1.03.",
        title="Tolerance",
        section="Balance",
        metavar="T",
        above=1,
        maximum=MOST_TOLERANCE,
        empty="the engine's own",
    )
    target_shares: tuple[float, ...] | None = option(
        None,
        help="Share of each partition, for machines of different size, such as 2,1,1. The sum need not be 1.",
        title="Shares of the partitions",
        section="Balance",
        metavar="S,S,…",
        above=0,
        empty="equal shares",
    )
    edge_tolerance: str = option(
        "1.2",
        help="Largest number of in-edges of a partition divided by its share, such as 1.2, or more if the"
        " nodes with the most in-edges force it. none: no limit.",
        title="Tolerance of in-edges",
        section="Balance",
        metavar="T",
        form={"pattern": r"^(none|[0-9]+(\.[0-9]+)?)$"},
    )
    objective: Objective | None = option(
        None,
        help="Quantity to minimise. cut: number of edges between partitions. vol: communication volume."
        " train: expected feature rows that trainers read from other partitions, first those of the slowest"
        " trainer; only the engine auto has it.",
        title="Objective",
        section="Training",
        empty="train for the engine auto if the graph has a feature train_mask, otherwise cut",
    )
    sampling: SamplingOptions = option_group(SamplingOptions)
    num_trainers_per_machine: int = option(
        1,
        help="Number of trainers on a machine. Every partition is made of this number of smaller ones, which"
        " assignment/trainers/ lists.",
        title="Trainers on a machine",
        section="Balance",
        metavar="N",
        minimum=1,
        maximum=MOST_PARTS,
    )
    migration_price: int = option(
        1,
        help="Number of cut edges that moving a node of the previous run to another partition must save. With"
        " the objective train, number of rows that trainers then read less from others in an epoch.",
        title="Price of migration",
        section="Growth",
        metavar="N",
        minimum=0,
        maximum=MOST_EDGES,
        only_with="previous",
    )
    drift: float = option(
        1.05,
        help="Largest share of edges cut, as a multiple of that of the last full run. Above it, whole"
        " clusters move; if that is not enough, a full run follows. In graphs of which auto makes several"
        " partitions, a full run follows above three times the drift, such as 1.15 instead of 1.05.",
        title="Drift",
        section="Growth",
        metavar="D",
        minimum=1,
        only_with="previous",
    )
    compare_full: bool = option(
        False,
        help="Also do a full run, only to report its figures.",
        title="Compare with a full run",
        section="Growth",
        only_with="previous",
    )

    def options(self) -> dict[str, Any]:
        """Return the options that the assignment depends on, as JSON."""
        options = asdict(self)
        options["sampling"] = self.sampling.options()
        recorded = recorded_options(self.engine)
        if self.objective not in (None, "train") or "sampling" not in recorded:
            del options["sampling"]
        if "effort" not in recorded:
            del options["effort"]
        if len(self.balance_features) == 1:  # as previous versions recorded it
            options["balance_ntypes"] = self.balance_features[0]
        for engine, (field, _) in engine_options().items():
            if engine == self.engine:
                options[field] = getattr(self, field).options()
            else:
                del options[field]
        return {name: value for name, value in options.items() if name not in self.incremental_options()}

    def incremental_options(self) -> dict[str, Any]:
        """Return the further options that the assignment of an incremental run depends on."""
        names = [one.field for one in own_options(PartitionConfig) if one.only_with == "previous"]
        return {name: getattr(self, name) for name in names}

    def own(self, options: type[Own]) -> Own:
        """Return the options of an engine, by their class."""
        return next(value for value in vars(self).values() if isinstance(value, options))

    @property
    def all_parts(self) -> int:
        """Number of partitions that an engine makes: one for each trainer of each machine."""
        return self.num_parts * self.num_trainers_per_machine

    @property
    def balance_features(self) -> tuple[str, ...]:
        """The features to balance by that the options name, each once."""
        return tuple(name for name in dict.fromkeys(self.balance_ntypes or ()) if name != NO_FEATURE)

    @property
    def most_of_in_edges(self) -> float | None:
        """Largest number of in-edges of a partition divided by its share; None for no limit."""
        return None if self.edge_tolerance == NO_LIMIT else float(self.edge_tolerance)

    def __post_init__(self) -> None:
        if isinstance(self.balance_ntypes, str):
            object.__setattr__(self, "balance_ntypes", (self.balance_ntypes,))
        if isinstance(self.edge_tolerance, (int, float)):  # from Python, and from templates that render to it
            object.__setattr__(self, "edge_tolerance", str(self.edge_tolerance))
        super().__post_init__()
        try:
            fits = self.edge_tolerance == NO_LIMIT or 1 < float(self.edge_tolerance) <= MOST_TOLERANCE
        except ValueError:
            fits = False
        if not fits:
            raise UsageError(
                "--edge-tolerance is out of range",
                found=repr(self.edge_tolerance),
                expected=f"a number above 1, up to {MOST_TOLERANCE}, or {NO_LIMIT}",
            )
        if self.target_shares is not None and len(self.target_shares) != self.num_parts:
            raise UsageError(
                "--target-shares does not fit the partitions",
                found=", ".join(map(str, self.target_shares)),
                expected=f"{self.num_parts} numbers above 0, one for each partition",
            )
        if self.target_shares and max(self.target_shares) > MOST_RATIO * min(self.target_shares):
            raise UsageError(
                "--target-shares are too different",
                found=f"{max(self.target_shares):g} and {min(self.target_shares):g}",
                expected=f"no share of more than {MOST_RATIO:,} times another",
            )
        if self.num_trainers_per_machine > MOST_PARTS // self.num_parts:
            raise UsageError(
                "--num-trainers-per-machine is out of range",
                found=self.num_trainers_per_machine,
                expected=f"1 to {MOST_PARTS // self.num_parts}, with {self.num_parts} partitions",
            )


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(Options):
    """Which program partitions ParMETIS's text."""

    use_program: bool = option(
        False,
        help="Run the pm_dglpart of the ParMETIS project that is on the PATH instead. It drops duplicate"
        " edges, writes three-digit part numbers and no stats files, and ignores the other options.",
        form=None,
    )


@dataclass(frozen=True, kw_only=True)
class PreviousOptions(Options):
    """The previous run that an incremental run continues."""

    previous: str | None = option(
        None,
        help="A finished run over an earlier version of the graph, or the root of the graph's runs, which"
        " means the newest published run: a folder or s3://…. Nodes stay in their partitions unless moving"
        " them pays off.",
        title="Previous run",
        section="Growth",
        metavar="RUN",
        empty="a full run",
        form={"pattern": f"^(latest)?$|{ROOT_PATTERN}"},
    )
