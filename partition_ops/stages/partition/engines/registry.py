"""The engines, by name. To add one: write its function, list it here, and the CLI and the DAG offer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from partition_ops.errors import UsageError
from partition_ops.stages.partition.engines.metis import partition_metis
from partition_ops.stages.partition.engines.parmetis.engine import follow_by_adapting, partition_parmetis
from partition_ops.stages.partition.engines.random import partition_random
from partition_ops.stages.partition.engines.two_level import partition_auto, partition_two_level
from partition_ops.stages.partition.incremental import (
    Old,
    follow_by_dealing,
    follow_by_refining,
    follow_by_regrouping,
)
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem


@dataclass(frozen=True)
class Engine:
    """A way to assign nodes to partitions.

    Attributes:
        name: As users give it.
        summary: One line for the help.
        needs_graph: Whether ``prepare`` must have been done.
        run: Gives the partition of every node: (nodes,) int32 by homogeneous ID.
        follow: Gives the same, from the partitions of the graph when it was smaller; None where balance
            cannot be restored so.
        dgl_name: What DGL's own tools call it; their loader knows ``random`` and ``metis`` only.
        able: Options of `PartitionConfig`, besides the common ones, that it can do.
        regroup: Where following cuts too many edges: gives other ways to, one after the other, with more old
            nodes moved; None for an engine that has none.
    """

    name: str
    summary: str
    needs_graph: bool
    run: Callable[[Problem], Parts]
    follow: Callable[[Problem, Old], Parts | None]
    dgl_name: str
    able: frozenset[str] = frozenset()
    regroup: Callable[[Problem, Old], Iterator[Parts]] | None = None


# options that not every engine can do, with the value that asks for nothing
OPTIONAL: dict[str, Any] = {
    "balance_ntypes": None,
    "tolerance": None,
    "target_shares": None,
    "objective": "cut",
    "num_trainers_per_machine": 1,
}

ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "auto",
            "two-level, or metis where that is expected to cut fewer edges",
            True,
            partition_auto,
            follow_by_refining,
            "metis",
            frozenset(OPTIONAL),
            follow_by_regrouping,
        ),
        Engine(
            "two-level",
            "clusters, METIS over the graph of the clusters, refinement on the whole graph",
            True,
            partition_two_level,
            follow_by_refining,
            "metis",
            frozenset(OPTIONAL) - {"objective"},
            follow_by_regrouping,
        ),
        Engine(
            "metis",
            "METIS, multilevel, one constraint a node type",
            True,
            partition_metis,
            follow_by_refining,
            "metis",
            frozenset(OPTIONAL),
            follow_by_regrouping,
        ),
        Engine(
            "random",
            "every type's nodes dealt out evenly at random",
            False,
            partition_random,
            follow_by_dealing,
            "random",
            frozenset({"target_shares", "num_trainers_per_machine"}),
        ),
        Engine(
            "parmetis",
            "ParMETIS over MPI, on one machine or several; it must be installed",
            True,
            partition_parmetis,
            follow_by_adapting,
            "metis",
            frozenset(OPTIONAL) - {"objective"},
        ),
    )
}


def find_engine(name: str) -> Engine:
    """The engine of a name.

    Raises:
        UsageError: There is none; the message lists those that there are.
    """
    if name not in ENGINES:
        raise UsageError(f"There is no engine {name!r}", expected="one of " + ", ".join(ENGINES))
    return ENGINES[name]


def check_able(engine: Engine, config: PartitionConfig) -> None:
    """Refuse an option that an engine cannot do.

    Raises:
        UsageError: Names the option and the engines that can.
    """
    for name, nothing in OPTIONAL.items():
        if name not in engine.able and getattr(config, name) != nothing:
            others = [other.name for other in ENGINES.values() if name in other.able]
            raise UsageError(
                f"The engine {engine.name!r} cannot do --{name.replace('_', '-')}",
                found=getattr(config, name),
                remedy=f"Use --engine {' or '.join(others)}.",
            )
