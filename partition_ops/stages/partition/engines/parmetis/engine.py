"""Engine ``parmetis``: ParMETIS over MPI, each rank with its own slice of the prepared graph."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.stages.partition.engines.metis import partition_metis
from partition_ops.stages.partition.engines.parmetis.launch import run_ranks
from partition_ops.stages.partition.engines.parmetis.limits import check_fits
from partition_ops.stages.partition.engines.two_level.engine import constraints_of
from partition_ops.stages.partition.engines.two_level.graph import Graph
from partition_ops.stages.partition.engines.two_level.refine import refine
from partition_ops.stages.partition.incremental.old import Old
from partition_ops.stages.partition.incremental.place import place_new
from partition_ops.stages.partition.incremental.refinement import follow_by_refining
from partition_ops.stages.partition.problem import Parts, Problem

logger = logging.getLogger("partition_ops")

RANK_MODULE = "partition_ops.stages.partition.engines.parmetis.rank"
FEWEST_NODES = 20  # for each rank and partition: below, ParMETIS divides by zero


def partition_parmetis(problem: Problem) -> Parts:
    """Cut few edges with ParMETIS's multilevel k-way method, every column of the weights balanced.

    The ranks read the prepared graph themselves, from the disk (which all hosts must share then) or from
    object storage; this process does not. A graph too small for ParMETIS is given to METIS.

    Returns:
        (nodes,) int32, partition by homogeneous ID.

    Raises:
        EngineError: ParMETIS, OpenMPI or mpi4py is not installed, the graph does not fit ParMETIS's
            integers, a rank died, or ParMETIS failed.

    Peak memory: 8 bytes a node here and in rank 0; in every rank, its share of 20 bytes a half-edge and 16
    bytes a node and constraint, and what ParMETIS takes.
    """
    return _run(problem, None)


def follow_by_adapting(problem: Problem, old: Old) -> Parts | None:
    """Place new nodes, and let ParMETIS's adaptive repartitioning improve that.

    It weighs edges that are cut against nodes that move, by the price of migration. As it may leave
    partitions fuller than they may be, nodes are moved out of those in the end, here in this process. A graph
    too small for ParMETIS is followed without it.

    Returns:
        (nodes,) int32, partition by homogeneous ID; None where balance cannot be restored.

    Raises:
        EngineError: As `partition_parmetis`, or the library has no adaptive repartitioning.

    Peak memory: that of `partition_parmetis`, and here 40 bytes a node; the graph is mapped.
    """
    if _is_small(problem):
        return follow_by_refining(problem, old)
    graph, constraints = Graph.of_input(problem.graph), constraints_of(problem)
    homes = old.homes.copy()
    place_new(graph, constraints, homes)
    parts = _run(problem, homes)
    idle = np.zeros(len(parts), np.bool_)  # only what is too full is to be touched
    price = problem.config.migration_price
    return parts if refine(graph, constraints, parts, homes=old.homes, price=price, active=idle) else None


def _is_small(problem: Problem) -> bool:
    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    fewest = FEWEST_NODES * max(problem.config.mpi.ranks, problem.num_parts)
    return bool(stats["num_half_edges"] == 0 or stats["num_nodes"] < fewest)


def _run(problem: Problem, homes: Parts | None) -> Parts:
    """Start the ranks and take what they leave; they begin from ``homes`` where those are given."""
    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    nodes, half_edges = stats["num_nodes"], stats["num_half_edges"]
    options = problem.config.mpi
    if _is_small(problem):
        logger.info("parmetis: %d nodes are too few for ParMETIS, METIS partitions them", nodes)
        return partition_metis(problem)
    bits = options.library.index_bits
    check_fits(bits, nodes=nodes, half_edges=half_edges, weight_sums=[nodes])
    try:
        if problem.config.balance_ntypes is not None:
            problem.artifacts.write_array(layout.PARMETIS_CLASSES, problem.classes)
        if homes is not None:
            problem.artifacts.write_array(layout.PARMETIS_HOMES, homes)
        run_ranks(RANK_MODULE, {**_job(problem, nodes), "follows": homes is not None}, options)
        parts: Parts = np.load(problem.artifacts.local_copy(layout.PARMETIS_PARTS), allow_pickle=False)
        return np.array(parts)
    finally:
        problem.artifacts.delete([layout.PARMETIS_PARTS, layout.PARMETIS_CLASSES, layout.PARMETIS_HOMES])


def _job(problem: Problem, nodes: int) -> dict[str, Any]:
    """What rank 0 tells the others; with credentials, so it goes nowhere else."""
    settings = problem.artifacts.settings
    return {
        "config": asdict(problem.config),
        "node_offsets": problem.metadata.node_offsets,
        "nodes": nodes,
        "uri": problem.artifacts.uri,
        "settings": asdict(settings) if settings else None,
        "environment": {name: value for name, value in os.environ.items() if name.startswith("AWS_")},
    }
