"""The job that a process gives to MPI's ranks, and what each rank knows of it."""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock_fence import Fence
from partition_ops.options.declare import groups
from partition_ops.stages.partition.mpi import mpirun
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.storage import StorageSettings, Store, open_store

MEMORY_MARK = "@partition-ops-memory "
NUMBERS_AT_ONCE = 1 << 22
Made = TypeVar("Made")
logger = logging.getLogger("partition_ops")


def partition_over_ranks(
    module: str,
    problem: Problem,
    *,
    classes: bool = False,
    homes: Parts | None = None,
    more: dict[str, Any] | None = None,
) -> Parts:
    """Run a module on every rank, and return the partitions that rank 0 writes: (nodes,) int32.

    The largest memory of each rank is logged.

    Args:
        module: Calls `do_work`.
        problem: The graph, and how to partition it.
        classes: Whether the ranks read the classes of nodes; otherwise, the types decide.
        homes: (nodes,) int32, partitions to begin from; None to begin from nothing.
        more: What else the ranks are told, as JSON.
    """
    artifacts, nodes = problem.artifacts, problem.metadata.node_offsets[-1]
    if artifacts.fence is not None:
        artifacts.fence.check()  # the ranks do not wait until it is certain who has the lock
    try:
        if classes:
            artifacts.write_array(layout.RANKS_CLASSES, problem.classes)
            problem.forget()  # a rank on this machine needs the memory
        if homes is not None:
            artifacts.write_array(layout.RANKS_HOMES, homes)
        told = {**_job(problem, nodes), "has_classes": classes, "follows": homes is not None, **(more or {})}
        try:
            text = mpirun.run_ranks(module, told, problem.config.own(MpiOptions))
        finally:
            artifacts.changed_elsewhere([layout.RANKS_PARTS])
        for line in text.splitlines():
            _, mark, memory = line.partition(MEMORY_MARK)  # MPI may have written something before it
            if mark:
                logger.info("%s", memory)
        parts: Parts = np.load(artifacts.local_copy(layout.RANKS_PARTS), allow_pickle=False)
        return np.array(parts)
    finally:
        artifacts.delete([layout.RANKS_PARTS, layout.RANKS_CLASSES, layout.RANKS_HOMES])


def _job(problem: Problem, nodes: int) -> dict[str, Any]:
    """Return what rank 0 sends to the others; it holds credentials, so it goes nowhere else."""
    settings, fence = problem.artifacts.settings, problem.artifacts.fence
    lock = None  # ranks that outlive this process must not write once another one has its lock
    if isinstance(fence, Fence):
        lock = {"uri": fence.root.uri, "token": fence.token, "holder": dict(fence.holder)}
    return {
        "config": asdict(problem.config),
        "node_offsets": problem.metadata.node_offsets,
        "nodes": nodes,
        "uri": problem.artifacts.uri,
        "settings": asdict(settings) if settings else None,
        "lock": lock,
        "environment": {name: value for name, value in os.environ.items() if name.startswith("AWS_")},
    }


@dataclass(frozen=True)
class Work:
    """The work of this rank."""

    comm: Any  # the communicator of all ranks
    config: PartitionConfig
    store: Store  # root of the run
    job: dict[str, Any]  # what `partition_over_ranks` has sent

    @property
    def nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.job["nodes"])

    def read_array(
        self,
        key: str,
        dtype: type[np.number[Any]],
        begin: int,
        end: int,
        narrow: npt.DTypeLike | None = None,
    ) -> npt.NDArray[Any]:
        """Read a part of an array with an entry a node, which ends the file after NumPy's header.

        Args:
            key: Key of the file.
            dtype: Type of the file's numbers.
            begin: First node.
            end: End of the range of nodes.
            narrow: Type of the result, which all numbers fit; None for that of the file.
        """
        found, size = self.store.stat(key), np.dtype(dtype).itemsize
        first = (found.size if found else 0) - size * self.nodes
        array = np.empty(end - begin, narrow or dtype)
        for start in range(begin, end, NUMBERS_AT_ONCE):
            stop = min(start + NUMBERS_AT_ONCE, end)
            content = self.store.read_range(key, first + size * start, first + size * stop)
            array[start - begin : stop - begin] = np.frombuffer(content, dtype)
        return array


def do_work(partition: Callable[[Work], Parts]) -> None:
    """Read the job from standard input (rank 0), do it, and let rank 0 write the partitions of all nodes.

    Args:
        partition: Returns (nodes,) int32 in rank 0; what the others return does not count.
    """
    mpirun.run_rank(lambda comm: _rank(comm, partition))


def _rank(comm: Any, partition: Callable[[Work], Parts]) -> None:
    job = comm.bcast(json.load(sys.stdin) if comm.rank == 0 else None)
    os.environ.update(job["environment"])
    settings = StorageSettings(**job["settings"]) if job["settings"] else None
    with open_store(job["uri"], settings) as store:
        parts = partition(Work(comm, _made(PartitionConfig, job["config"]), store, job))
        mpirun.meet(comm)
        memory = comm.gather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
        if comm.rank == 0:
            print(f"{MEMORY_MARK}largest memory of the MPI ranks in MiB: {', '.join(map(str, memory))}")
            with ExitStack() as stack:
                if job["lock"]:  # write only while the process that started the ranks has its lock
                    root = stack.enter_context(open_store(job["lock"]["uri"], settings))
                    store.fence = Fence(root, job["lock"])
                store.write_array(layout.RANKS_PARTS, parts)


def _made(cls: type[Made], values: dict[str, Any]) -> Made:
    """Return the options of which `asdict` has made ``values``; JSON has lists in place of tuples."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return cls(**own | {name: _made(group, values[name]) for name, group in groups(cls).items()})
