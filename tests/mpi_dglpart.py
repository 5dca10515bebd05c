"""Under mpirun: our pm_dglpart over several folders, ``FOLDER:GRAPH:PARTS`` each, PARTS for each rank."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from partition_ops.config import PartitionConfig
from partition_ops.parmetis.dglpart import dglpart
from partition_ops.parmetis.ranks import run_rank


def work(comm: Any) -> None:
    for case in sys.argv[1:]:
        folder, graph, parts = case.split(":")
        config = PartitionConfig(graph_name=graph, num_parts=int(parts) * comm.size, engine="parmetis")
        dglpart(config, Path(folder), comm)


if __name__ == "__main__":
    run_rank(work)
