"""One MPI rank of the engine ``parmetis``; ``mpirun … python -m`` runs this module."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import read_parhip_slice
from partition_ops.stages.partition.mpi.job import Work, do_work
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.mpi.parmetis_library import Library, Slice, Target, check_fits
from partition_ops.stages.partition.multilevel.tuning import PARMETIS_TOLERANCE
from partition_ops.stages.partition.problem import (
    Parts,
    Weights,
    can_be_shared,
    class_weights,
    shares,
    tolerances,
    type_classes,
)


def _partition(work: Work) -> Parts:
    """Return the partition of every node in rank 0, and nothing in the others."""
    bounds = np.arange(work.comm.size + 1, dtype=np.int64) * work.nodes // work.comm.size
    span = int(bounds[work.comm.rank]), int(bounds[work.comm.rank + 1])
    library = Library(work.config.own(MpiOptions).library)
    graph = read_parhip_slice(work.store, layout.PREPARED_GRAPH, *span, library.index)
    weights, allowed = _weights(work, span, graph.num_half_edges)
    piece = Slice(bounds, graph.offsets.astype(library.index), graph.neighbours, weights)
    fractions = shares(work.config)
    target = Target(len(fractions), allowed, fractions, work.config.seed)
    if work.job["follows"]:
        homes = work.read_array(layout.RANKS_HOMES, np.int32, *span)
        parts = library.repartition(piece, target, homes, work.config.migration_price, work.comm)
    else:
        parts = library.partition(piece, target, work.comm)
    everything = np.empty(work.nodes if work.comm.rank == 0 else 0, np.int32)
    work.comm.Gatherv(parts, [everything, np.diff(bounds)] if work.comm.rank == 0 else None)
    return everything


def _weights(work: Work, span: tuple[int, int], half_edges: int) -> tuple[Weights, npt.NDArray[np.float64]]:
    """Return the weights of this rank's nodes, and the tolerance of each weight, the same on every rank."""
    from mpi4py import MPI

    if work.job["has_classes"]:
        classes = work.read_array(layout.RANKS_CLASSES, np.int32, *span)
    else:
        classes = type_classes(work.config, tuple(work.job["node_offsets"]), *span)
    count = work.comm.allreduce(int(classes.max(initial=0)), MPI.MAX) + 1
    in_degrees, width = np.zeros(0, np.int64), count
    if work.config.balance == "edges":
        in_degrees, width = work.read_array(layout.PREPARED_IN_DEGREES, np.int64, *span), 2 * count
    columns = class_weights(classes, in_degrees, np.arange(count, width), width)
    sums = work.comm.allreduce(columns.sum(axis=0), MPI.SUM)
    heaviest = np.max(work.comm.allgather(columns.max(axis=0)), axis=0)
    total = work.comm.allreduce(half_edges, MPI.SUM)
    used = can_be_shared(work.config, heaviest, sums)
    bits = work.config.own(MpiOptions).library.index_bits
    check_fits(bits, nodes=work.nodes, half_edges=total, weight_sums=sums[used].tolist())
    return columns[:, used], tolerances(work.config, heaviest[used], sums[used], PARMETIS_TOLERANCE)


if __name__ == "__main__":
    do_work(_partition)
