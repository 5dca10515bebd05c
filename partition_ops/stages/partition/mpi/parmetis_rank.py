"""One MPI rank of the engine ``parmetis``; ``mpirun … python -m`` runs this module."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import Fence
from partition_ops.artifacts.parhip import read_parhip_slice
from partition_ops.stages.partition.engines.parmetis import LibraryOptions, MpiOptions
from partition_ops.stages.partition.mpi.mpirun import run_rank
from partition_ops.stages.partition.mpi.parmetis_library import Library, Slice, Target, check_fits
from partition_ops.stages.partition.multilevel.tuning import PARMETIS_TOLERANCE
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import (
    Weights,
    can_be_shared,
    class_weights,
    shares,
    tolerances,
    type_classes,
)
from partition_ops.storage import StorageSettings, Store, open_store


@dataclass(frozen=True)
class _Work:
    """The work of this rank: ``begin`` to ``end`` are the homogeneous IDs of its nodes.

    If ``follows`` is true, it begins from the partitions of an earlier run.
    """

    comm: Any
    config: PartitionConfig
    store: Store
    node_offsets: tuple[int, ...]
    bounds: npt.NDArray[np.int64]
    follows: bool
    has_classes: bool

    @property
    def begin(self) -> int:
        return int(self.bounds[self.comm.rank])

    @property
    def end(self) -> int:
        return int(self.bounds[self.comm.rank + 1])


def main() -> None:
    """Read the job from standard input (rank 0), partition, and let rank 0 write the result."""
    run_rank(_rank)


def _rank(comm: Any) -> None:
    job = comm.bcast(json.load(sys.stdin) if comm.rank == 0 else None)
    os.environ.update(job["environment"])
    settings = StorageSettings(**job["settings"]) if job["settings"] else None
    with open_store(job["uri"], settings) as store:
        bounds = np.arange(comm.size + 1, dtype=np.int64) * job["nodes"] // comm.size
        config, offsets = _config(job["config"]), tuple(job["node_offsets"])
        work = _Work(comm, config, store, offsets, bounds, job["follows"], job["has_classes"])
        parts = _gather(work, _partition(work))
        if comm.rank == 0:
            with ExitStack() as stack:
                if job["lock"]:  # write only while the process that started the ranks has its lock
                    root = stack.enter_context(open_store(job["lock"]["uri"], settings))
                    store.fence = Fence(root, job["lock"])
                store.write_array(layout.PARMETIS_PARTS, parts)


def _config(options: dict[str, Any]) -> PartitionConfig:
    mpi = options.pop("mpi")
    options.pop("sampling")
    target = options.pop("target_shares")
    library = LibraryOptions(**mpi.pop("library"))
    options |= {"target_shares": target and tuple(target), "mpi": MpiOptions(**mpi, library=library)}
    return PartitionConfig(**options)


def _partition(work: _Work) -> npt.NDArray[np.int32]:
    library = Library(work.config.own(MpiOptions).library)
    graph = read_parhip_slice(work.store, layout.PREPARED_GRAPH, work.begin, work.end, library.index)
    weights, allowed = _weights(work, graph.num_half_edges)
    piece = Slice(work.bounds, graph.offsets, graph.neighbours, weights)
    fractions = shares(work.config)
    target = Target(len(fractions), allowed, fractions, work.config.seed)
    if not work.follows:
        return library.partition(piece, target, work.comm)
    homes = _read_array(work, layout.PARMETIS_HOMES, np.dtype(np.int32))
    return library.repartition(piece, target, homes, work.config.migration_price, work.comm)


def _weights(work: _Work, half_edges: int) -> tuple[Weights, npt.NDArray[np.float64]]:
    """Return the weights of this rank's nodes, and the tolerance of each weight, the same on every rank."""
    from mpi4py import MPI

    classes, in_degrees = type_classes(work.config, work.node_offsets, work.begin, work.end), None
    if work.has_classes:
        classes = _read_array(work, layout.PARMETIS_CLASSES, np.dtype(np.int32))
    if work.config.balance == "edges":
        in_degrees = _read_array(work, layout.PREPARED_IN_DEGREES, np.dtype(np.int64))
    count = work.comm.allreduce(int(classes.max(initial=0)), MPI.MAX) + 1
    columns = class_weights(classes, count, in_degrees)
    sums = work.comm.allreduce(columns.sum(axis=0), MPI.SUM)
    heaviest = np.max(work.comm.allgather(columns.max(axis=0)), axis=0)
    total = work.comm.allreduce(half_edges, MPI.SUM)
    used = can_be_shared(work.config, heaviest, sums)
    bits = work.config.own(MpiOptions).library.index_bits
    check_fits(bits, nodes=int(work.bounds[-1]), half_edges=total, weight_sums=sums[used].tolist())
    return columns[:, used], tolerances(work.config, heaviest[used], sums[used], PARMETIS_TOLERANCE)


def _read_array(work: _Work, key: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Read this rank's part of an array with an entry a node, which ends the file after NumPy's header."""
    found = work.store.stat(key)
    first = (found.size if found else 0) - dtype.itemsize * int(work.bounds[-1])
    begin, end = (first + dtype.itemsize * node for node in (work.begin, work.end))
    return np.frombuffer(work.store.read_range(key, begin, end), dtype)


def _gather(work: _Work, parts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the partition of every node in rank 0, and nothing in the others."""
    everything = np.empty(int(work.bounds[-1]) if work.comm.rank == 0 else 0, np.int32)
    work.comm.Gatherv(parts, [everything, np.diff(work.bounds)] if work.comm.rank == 0 else None)
    return everything


if __name__ == "__main__":
    main()
