"""Engine ``parmetis``: ParMETIS over MPI, on one machine or several; it must be installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from partition_ops.errors import EngineError
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost, doublings
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.multilevel.tuning import PARMETIS_TOLERANCE

if TYPE_CHECKING:
    from partition_ops.artifacts.cost import Machine, Sizes
    from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
    from partition_ops.stages.partition.options import PartitionConfig
    from partition_ops.stages.partition.problem import Parts, Problem

RANK_MODULE = "partition_ops.stages.partition.mpi.parmetis_rank"
logger = logging.getLogger("partition_ops")


class Parmetis(Engine):
    """ParMETIS, or PM4GNN; it must be installed."""

    name = "parmetis"
    supports = frozenset(OPTIONAL)
    tolerance = PARMETIS_TOLERANCE
    many_machines = "--engine parmetis"
    needs_ranks = True

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
        seconds = sizes.edges * 0.05e-6 * doublings(config)
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
        from partition_ops.stages.partition.incremental.placement import place_and_refine, place_new_nodes
        from partition_ops.stages.partition.multilevel.levels import Level
        from partition_ops.stages.partition.multilevel.refine import restore_balance

        if _is_small(problem):
            yield from place_and_refine(problem, previous)
            return
        graph, constraints = Level.of(problem)[:2]
        homes = previous.homes.copy()
        place_new_nodes(graph, constraints, homes)
        parts = _run(problem, homes)
        tuning, price = problem.tuning, problem.config.migration_price
        if restore_balance(graph, constraints, parts, homes=previous.homes, price=price, tuning=tuning):
            yield parts


def _is_small(problem: Problem) -> bool:
    from partition_ops.artifacts import layout
    from partition_ops.stages.partition.mpi.parmetis_library import is_too_small

    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    ranks = problem.config.own(MpiOptions).number
    return is_too_small(stats["num_nodes"], stats["num_half_edges"], ranks, problem.num_parts)


def _run(problem: Problem, homes: Parts | None) -> Parts:
    """Let METIS or the ranks partition, which begin from ``homes`` if there are any: (nodes,) int32."""
    from partition_ops.artifacts import layout
    from partition_ops.stages.partition.engines import metis
    from partition_ops.stages.partition.mpi.job import partition_over_ranks
    from partition_ops.stages.partition.mpi.parmetis_library import check_fits, check_installed

    if len(problem.edge_weights):
        raise EngineError("ParMETIS is called without weights of edges", remedy="Use --engine auto.")
    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    nodes, half_edges = stats["num_nodes"], stats["num_half_edges"]
    library = problem.config.own(MpiOptions).library
    if _is_small(problem):
        logger.info("parmetis: %d nodes are too few for ParMETIS, METIS partitions them", nodes)
        return metis.ENGINE.partition(problem)
    check_fits(library.index_bits, nodes=nodes, half_edges=half_edges, weight_sums=[nodes])
    check_installed(library)
    return partition_over_ranks(RANK_MODULE, problem, classes=bool(problem.features), homes=homes)


OPTIONS = ("mpi", MpiOptions)
ENGINE = Parmetis()
