"""Engine ``parmetis``: ParMETIS over MPI, on one machine or several; it must be installed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from partition_ops.errors import EngineError, UsageError
from partition_ops.options.declare import Options, option, option_group
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost
from partition_ops.stages.partition.multilevel.tuning import PARMETIS_TOLERANCE

if TYPE_CHECKING:
    from partition_ops.artifacts.cost import Machine, Sizes
    from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
    from partition_ops.stages.partition.options import PartitionConfig
    from partition_ops.stages.partition.problem import Parts, Problem

RANK_MODULE = "partition_ops.stages.partition.mpi.parmetis_rank"
PARMETIS = {"section": "Engine parmetis", "only_with": "engine=parmetis"}
BITS = (32, 64)
logger = logging.getLogger("partition_ops")


@dataclass(frozen=True, kw_only=True)
class LibraryOptions(Options):
    """The shared library that the engine ``parmetis`` calls."""

    path: str | None = option(
        None,
        name="parmetis_library",
        help="Path of the shared library of ParMETIS, or of a library that exports PM4GNN_PartKway.",
        metavar="FILE",
        empty="the system's libparmetis",
        form=None,
        **PARMETIS,
    )
    index_bits: int = option(
        32,
        name="parmetis_index_bits",
        help="Width of the integers (idx_t) that the library was built with, 32 or 64.",
        metavar="N",
        form=None,
        **PARMETIS,
    )
    real_bits: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, bits in (("--parmetis-index-bits", self.index_bits), ("real_bits", self.real_bits)):
            if bits not in BITS:
                raise UsageError(f"{name} cannot be {bits}", expected="32 or 64")
        if self.path is None and (self.index_bits, self.real_bits) != (32, 32):
            raise UsageError(
                "Debian's ParMETIS has 32-bit numbers only",
                remedy="Name a library that was built with 64 bits by --parmetis-library.",
            )


@dataclass(frozen=True, kw_only=True)
class MpiOptions(Options):
    """How the ranks of the engine ``parmetis`` are started, and the library that they call."""

    ranks: int = option(
        2,
        name="mpi_ranks",
        help="Number of MPI processes of the engine parmetis.",
        title="MPI ranks",
        metavar="N",
        minimum=1,
        maximum=4096,
        form={"section": "More"},
        **PARMETIS,
    )
    hostfile: str | None = option(
        None,
        help="OpenMPI's list of hosts, for the engine parmetis on several machines: a local path.",
        title="Hostfile",
        metavar="FILE",
        empty="all ranks run on this machine",
        form={"section": "More"},
        **PARMETIS,
    )
    mpirun: str | None = option(
        None,
        help="Command that starts the ranks, with its options.",
        metavar="CMD",
        empty="OpenMPI's mpirun",
        form=None,
        **PARMETIS,
    )
    library: LibraryOptions = option_group(LibraryOptions)

    def options(self) -> dict[str, Any]:
        """Return the options that the assignment depends on, as JSON."""
        return {"ranks": self.ranks, "library": asdict(self.library)}


class Parmetis(Engine):
    """ParMETIS, or PM4GNN; it must be installed."""

    name = "parmetis"
    supports = frozenset(OPTIONAL)
    tolerance = PARMETIS_TOLERANCE
    many_machines = True

    def check(self, config: PartitionConfig) -> None:
        """Raise an error also if the hostfile, command or library of the options does not exist."""
        from partition_ops.stages.partition.mpi.mpirun import check_paths

        super().check(config)
        check_paths(config.own(MpiOptions))

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges with ParMETIS's multilevel k-way method, every column of the weights balanced.

        The ranks read the prepared graph themselves, from the disk (which all hosts must share then) or from
        object storage; this process does not. METIS partitions a graph that is too small for ParMETIS.

        Raises:
            EngineError: ParMETIS, OpenMPI or mpi4py is not installed, the graph does not fit ParMETIS's
                integers, a rank died, or ParMETIS failed.

        Peak memory: 8 bytes a node here and in rank 0; in every rank, its share of 20 bytes a half-edge and
        16 bytes a node and constraint, and what ParMETIS takes.
        """
        return _run(problem, None)

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        seconds = sizes.edges * 0.05e-6 * max((config.all_parts - 1).bit_length(), 1)
        note = "the ranks of ParMETIS are not estimated"
        return EngineCost(held=8 * sizes.nodes, seconds=seconds, note=note)

    def follow(self, problem: Problem, previous: PreviousAssignment) -> Iterator[Parts]:
        """Yield one assignment: new nodes are placed, and ParMETIS's adaptive repartitioning improves that.

        It weighs edges that are cut against nodes that move, by the price of migration. As it may leave
        partitions fuller than they may be, this process moves nodes out of those in the end. A graph too
        small for ParMETIS is refined here instead.

        Raises:
            EngineError: As `partition`, or the library has no adaptive repartitioning.

        Peak memory: that of `partition`, and here 40 bytes a node; the graph is mapped.
        """
        import numpy as np

        from partition_ops.stages.partition.incremental.placement import place_and_refine, place_new_nodes
        from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of
        from partition_ops.stages.partition.multilevel.refine import refine

        if _is_small(problem):
            yield from place_and_refine(problem, previous)
            return
        graph, constraints = Graph.of_input(problem.graph, problem.edge_weights), constraints_of(problem)
        homes = previous.homes.copy()
        place_new_nodes(graph, constraints, homes)
        parts = _run(problem, homes)
        idle = np.zeros(len(parts), np.bool_)  # only what is too full is to be touched
        tuning, price = problem.tuning, problem.config.migration_price
        if refine(graph, constraints, parts, homes=previous.homes, price=price, active=idle, tuning=tuning):
            yield parts


def _is_small(problem: Problem) -> bool:
    from partition_ops.artifacts import layout
    from partition_ops.stages.partition.mpi.parmetis_library import FEWEST_NODES

    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    fewest = FEWEST_NODES * max(problem.config.own(MpiOptions).ranks, problem.num_parts)
    return bool(stats["num_half_edges"] == 0 or stats["num_nodes"] < fewest)


def _run(problem: Problem, homes: Parts | None) -> Parts:
    """Start the ranks, and return the partitions that they write.

    Args:
        problem: The graph, and how to partition it.
        homes: (nodes,) int32, partitions to begin from; None to begin from nothing.
    """
    import numpy as np

    from partition_ops.artifacts import layout
    from partition_ops.stages.partition.engines import metis
    from partition_ops.stages.partition.mpi.mpirun import run_ranks
    from partition_ops.stages.partition.mpi.parmetis_library import check_fits

    if len(problem.edge_weights):
        raise EngineError("ParMETIS is called without weights of edges", remedy="Use --engine auto.")
    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    nodes, half_edges = stats["num_nodes"], stats["num_half_edges"]
    options = problem.config.own(MpiOptions)
    if _is_small(problem):
        logger.info("parmetis: %d nodes are too few for ParMETIS, METIS partitions them", nodes)
        return metis.ENGINE.partition(problem)
    bits = options.library.index_bits
    check_fits(bits, nodes=nodes, half_edges=half_edges, weight_sums=[nodes])
    try:
        if problem.features:
            problem.artifacts.write_array(layout.PARMETIS_CLASSES, problem.classes)
        if homes is not None:
            problem.artifacts.write_array(layout.PARMETIS_HOMES, homes)
        try:
            run_ranks(RANK_MODULE, {**_job(problem, nodes), "follows": homes is not None}, options)
        finally:
            problem.artifacts.changed_elsewhere([layout.PARMETIS_PARTS])
        parts: Parts = np.load(problem.artifacts.local_copy(layout.PARMETIS_PARTS), allow_pickle=False)
        return np.array(parts)
    finally:
        problem.artifacts.delete([layout.PARMETIS_PARTS, layout.PARMETIS_CLASSES, layout.PARMETIS_HOMES])


def _job(problem: Problem, nodes: int) -> dict[str, Any]:
    """Return what rank 0 sends to the others; it holds credentials, so it goes nowhere else."""
    from partition_ops.artifacts.lock import Fence

    settings, fence = problem.artifacts.settings, problem.artifacts.fence
    lock = None  # ranks that outlive this process must not write once another one has its lock
    if isinstance(fence, Fence):
        lock = {"uri": fence.root.uri, "token": fence.token, "holder": dict(fence.holder)}
    return {
        "config": asdict(problem.config),
        "node_offsets": problem.metadata.node_offsets,
        "nodes": nodes,
        "has_classes": bool(problem.features),
        "uri": problem.artifacts.uri,
        "settings": asdict(settings) if settings else None,
        "lock": lock,
        "environment": {name: value for name, value in os.environ.items() if name.startswith("AWS_")},
    }


OPTIONS = ("mpi", MpiOptions)
ENGINE = Parmetis()
