"""Under mpirun: our pm_dglpart over many folders, by groups of the ranks side by side.

The argument is JSON, a list of turns. A turn is a list of groups, each the number of its ranks and a list of
``[folder, partitions for each rank]``; all its groups together have no more ranks than were started.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from partition_ops.stages.partition.mpi.mpirun import run_rank
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.pm_dglpart.program import dglpart


def work(comm: Any) -> None:
    for turn in json.loads(sys.argv[1]):
        groups = [number for number, (ranks, _) in enumerate(turn) for _ in range(ranks)]
        groups += [len(turn)] * (comm.size - len(groups))  # these have nothing to do
        own = comm.Split(groups[comm.rank], comm.rank)
        for folder, parts in [*turn, (0, [])][groups[comm.rank]][1]:
            config = PartitionConfig(graph_name="small", num_parts=parts * own.size, engine="parmetis")
            dglpart(config, Path(folder), own)


if __name__ == "__main__":
    run_rank(work)
