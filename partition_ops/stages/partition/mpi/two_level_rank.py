"""One MPI rank of the engine ``two-level``; ``mpirun … python -m`` runs this module."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import offset_reader, open_parhip, read_parhip_slice
from partition_ops.stages.partition.engines.two_level import cut_over_clusters
from partition_ops.stages.partition.mpi.job import Work, do_work
from partition_ops.stages.partition.mpi.spread_over_ranks import SpreadOverRanks
from partition_ops.stages.partition.multilevel.graph import Constraints, Graph
from partition_ops.stages.partition.multilevel.levels import Level
from partition_ops.stages.partition.multilevel.refine import MOST_NARROW
from partition_ops.stages.partition.multilevel.tuning import TUNINGS
from partition_ops.stages.partition.problem import Parts


def _partition(work: Work) -> Parts:
    """Return the partition of every node: the same in all ranks, and as without MPI.

    Peak memory: 28 bytes a node, and 36 bytes for each half-edge of this rank's graph of clusters; in rank 0
    also that of all ranks, 12 bytes a half-edge, and METIS, as for the engine without MPI. The neighbours of
    this rank's nodes are mapped, 4 bytes a half-edge.
    """
    _take_share_of_cores(work.comm)

    def read_all() -> Graph:
        return Graph.of_input(open_parhip(work.store.local_copy(layout.PREPARED_GRAPH)))

    spread = SpreadOverRanks(work.comm, *offset_reader(work.store, layout.PREPARED_GRAPH), read_all)
    own, kind = spread.own, np.dtype(np.int32)
    piece = read_parhip_slice(work.store, layout.PREPARED_GRAPH, own.start, own.stop, kind, mapped=True)
    graph = spread.take(piece.offsets, piece.neighbours)
    del piece
    level = Level(graph, _constraints(work))
    return cut_over_clusters(work.config, TUNINGS[work.config.effort], level, work.job["spare"], spread)


def _take_share_of_cores(comm: Any) -> None:
    """Let the ranks on a machine share its cores, with one at least for each."""
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if here.size > 1 and hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, own[here.rank :: here.size] or [own[here.rank % len(own)]])
    here.Free()


def _constraints(work: Work) -> Constraints:
    columns, most = np.array(work.job["degree_columns"], np.int32), np.array(work.job["limits"], np.int64)
    in_degrees, narrow = np.zeros(0, np.int32), work.job["in_degrees"]
    if narrow is not None:
        in_degrees = work.read_array(layout.PREPARED_IN_DEGREES, np.int64, 0, work.nodes, narrow)
    narrow = np.int8 if len(columns) <= MOST_NARROW else np.int32
    classes = work.read_array(layout.RANKS_CLASSES, np.int32, 0, work.nodes, narrow)
    return Constraints(classes, in_degrees, columns, np.zeros((0, most.shape[1]), np.int64), most)


if __name__ == "__main__":
    do_work(_partition)
