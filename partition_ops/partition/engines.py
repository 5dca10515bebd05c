"""The engines, by name. To add one: write its function, list it here, and the CLI and the DAG offer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.partition.metis import partition_metis
from partition_ops.partition.problem import Parts, Problem
from partition_ops.partition.random import partition_random


@dataclass(frozen=True)
class Engine:
    """A way to assign nodes to partitions.

    Attributes:
        name: As users give it.
        summary: One line for the help.
        needs_graph: Whether ``prepare`` must have been done.
        run: Gives the partition of every node: (nodes,) int32 by homogeneous ID.
        dgl_name: What DGL's own tools call it; their loader knows ``random`` and ``metis`` only.
    """

    name: str
    summary: str
    needs_graph: bool
    run: Callable[[Problem], Parts]
    dgl_name: str


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("metis", "METIS, multilevel, one constraint a node type", True, partition_metis, "metis"),
        Engine("random", "every type's nodes dealt out evenly at random", False, partition_random, "random"),
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
