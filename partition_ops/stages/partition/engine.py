"""The base class of engines, and how to find an engine by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from partition_ops.errors import UsageError
from partition_ops.stages.partition.engines import engine_names, module_of
from partition_ops.stages.partition.multilevel.tuning import METIS_TOLERANCE

if TYPE_CHECKING:  # the options of engines are imported for --help
    from partition_ops.artifacts.cost import Machine, Sizes, TaskEstimate
    from partition_ops.chunked.metadata import GraphMetadata
    from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
    from partition_ops.stages.partition.options import PartitionConfig
    from partition_ops.stages.partition.problem import Parts, Problem

# options that not every engine supports, with the value that asks for nothing
OPTIONAL: dict[str, Any] = {
    "balance_ntypes": None,
    "tolerance": None,
    "target_shares": None,
    "num_trainers_per_machine": 1,
}
TRAIN, CUT = "train", "cut"
NODE_BYTES = 20  # of a node, in an engine that only deals out nodes


@dataclass(frozen=True, kw_only=True)
class EngineCost:
    """Memory of an engine in bytes, beyond a process without work, and its seconds."""

    held: int  # memory without which the process is killed
    mapped: int = 0  # pages of the file of the prepared graph
    seconds: float = 0.0  # a rough time on two cores
    weighs: bool = False  # whether edges get weights for the objective ``train``; see `Engine.weighs_edges`
    note: str | None = None  # what the figures assume, or None
    warnings: tuple[str, ...] = ()  # what may happen on this machine, in whole clauses
    # memory of MPI's ranks, the processes included; `held` has those on this machine
    ranks: tuple[TaskEstimate, ...] = ()


class Engine(ABC):
    """A way to assign nodes to partitions.

    To add one, write ``engines/<name>.py`` with a subclass and an instance of it, ``ENGINE``. The command
    line and the form of the DAG offer every engine in that folder, and show the first line of its module. An
    engine with options of its own also defines ``OPTIONS``: a field for `PartitionConfig`, and its dataclass.
    Such a module is imported for ``--help``, so its functions import what is heavy.
    """

    name: ClassVar[str]  # as users give it: the name of the module, with ``-`` for ``_``
    needs_graph: ClassVar[bool] = True  # whether ``prepare`` must have been done
    # what DGL's own tools call it; their loader knows ``random`` and ``metis`` only
    dgl_name: ClassVar[str] = "metis"
    supports: ClassVar[frozenset[str]] = frozenset()  # the options in `OPTIONAL` that it supports
    # largest weight of a partition over its share, if the options do not say
    tolerance: ClassVar[float] = METIS_TOLERANCE
    objectives: ClassVar[tuple[str, ...]] = ("cut",)  # the objectives that it supports
    # the options with which it takes the memory of several machines; empty if it cannot
    many_machines: ClassVar[str] = ""
    # the largest number of nodes of a graph; None if there is no limit
    most_nodes: ClassVar[int | None] = None
    # whether it runs over MPI always, so that `cost` does not know its memory
    needs_ranks: ClassVar[bool] = False
    # which of the options ``effort`` and ``sampling`` its assignment depends on
    recorded: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def partition(self, problem: Problem) -> Parts:
        """Return the partition of every node: (nodes,) int32 by homogeneous ID, below `Problem.num_parts`.

        Raises:
            EngineError: A library failed.
        """

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        """Return what `partition` takes, for the estimate of a job; no heavy library is needed.

        By default, a few numbers a node, and the prepared graph if the engine needs it.
        """
        if not self.needs_graph:
            return EngineCost(held=NODE_BYTES * sizes.nodes, seconds=sizes.nodes * 0.1e-6)
        note = f"the engine {self.name!r} does not say what it takes"
        return EngineCost(held=NODE_BYTES * sizes.nodes, mapped=sizes.prepared_bytes, note=note)

    def follow(self, problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
        """Yield assignments that keep most old nodes of a grown graph where they are: (nodes,) int32.

        The caller stops at the first that cuts few enough edges, so later ones may move more old nodes. An
        engine yields nothing if balance cannot be restored. By default, new nodes join their neighbours and
        the border is refined, and then whole clusters move; without a graph, new nodes are dealt out.
        """
        from partition_ops.stages.partition.incremental.near_home import regroup
        from partition_ops.stages.partition.incremental.placement import deal_new_nodes, place_and_refine

        if not self.needs_graph:
            yield from deal_new_nodes(problem, previous)
            return
        yield from place_and_refine(problem, previous)
        yield from regroup(problem, previous)

    def sample(self, problem: Problem) -> Parts | None:
        """Return a partition from scratch that takes a small part of the time of `partition`, or None.

        Its cut tells whether a grown graph must be cut more than before. By default, there is none.
        """
        return None

    def most_drift(self, problem: Problem) -> float:
        """Return the largest share of edges cut, relative to the last full run, without a full run.

        The option by default. An engine may return more if `follow` already searches near the old partitions.
        """
        return problem.config.drift

    def weighs_edges(self, problem: Problem) -> bool:
        """Return whether it wants weights of edges for the objective ``train``; `problem` has a model."""
        return True

    def can_number(self, nodes: int) -> bool:
        """Return whether a graph has few enough nodes for this engine."""
        return self.most_nodes is None or nodes <= self.most_nodes

    def check(self, config: PartitionConfig) -> None:
        """Raise `UsageError` if this engine, on this machine, cannot do what the options ask for.

        The message names the option and the engines that support it.
        """
        for option in (*OPTIONAL, "objective"):
            value = getattr(config, option)
            if not self._supports(option, value):
                others = [name for name in engine_names() if find_engine(name)._supports(option, value)]
                raise UsageError(
                    f"The engine {self.name!r} does not support --{option.replace('_', '-')}",
                    found=", ".join(map(str, value)) if isinstance(value, tuple) else value,
                    remedy=f"Use --engine {' or '.join(others)}.",
                )

    def _supports(self, option: str, value: Any) -> bool:
        if option == "objective":
            return value is None or value in self.objectives
        return option in self.supports or value == OPTIONAL[option]


def doublings(config: PartitionConfig) -> int:
    """Return how often the number of partitions doubles, at least once; the time of engines grows with it."""
    return max((config.all_parts - 1).bit_length(), 1)


def find_engine(name: str) -> Engine:
    """Return the engine of a name; raise `UsageError` if there is none."""
    if name not in engine_names():
        raise UsageError(f"There is no engine {name!r}", expected="one of " + ", ".join(engine_names()))
    engine: Engine = import_module(module_of(name)).ENGINE
    return engine


def objective_of(config: PartitionConfig, metadata: GraphMetadata) -> str:
    """Return the objective: that of the options, or for a graph with masks `TRAIN` if the engine has it."""
    from partition_ops.chunked.names import TRAIN_MASK  # which the form of the DAG does not need

    if config.objective is not None:
        return config.objective
    masked = any(feature.name == TRAIN_MASK for feature in metadata.node_features)
    trains = masked and config.all_parts > 1 and TRAIN in find_engine(config.engine).objectives
    return TRAIN if trains else CUT
