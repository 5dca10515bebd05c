"""KaMinPar in a process of its own: its module keeps the interpreter's lock, and its seed is global.

python -m partition_ops.stages.partition.multilevel.kaminpar_process PARENT GRAPH PARTS TOLERANCE OUTPUT SEED…
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from partition_ops.artifacts.parhip import open_parhip, write_weighted
from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError
from partition_ops.stages.partition.multilevel.tuning import KAMINPAR_PRESET
from partition_ops.stages.partition.problem import Parts, Weights
from partition_ops.system.signals import end_with_parent
from partition_ops.system.temporary_folders import temporary_folder

NO_WEIGHTS = np.zeros(0, np.int64)
running: set[subprocess.Popen[bytes]] = set()


def start_with_kaminpar(
    graph: Path, num_parts: int, tolerance: float, seeds: Sequence[int], edge_weights: Weights = NO_WEIGHTS
) -> list[Parts]:
    """Partition a ParHIP file once for each seed, with one thread, so that results depend on the seeds only.

    The process ends with this one, even if this one is killed. KaMinPar balances all nodes together, whatever
    their types.

    Args:
        graph: The file, without weights.
        num_parts: Number of partitions.
        tolerance: Largest weight of a partition over its share.
        seeds: From 0, below 2**31.
        edge_weights: (half-edges,) int64, written to a temporary file with the graph; empty for no weights.

    Returns:
        (nodes,) int32 for each seed.

    Raises:
        EngineError: KaMinPar failed.
        LibraryDiedError: Its process was killed, or crashed.
    """
    with temporary_folder() as folder:
        output = Path(folder) / "parts.npy"
        if len(edge_weights):
            graph = write_weighted(open_parhip(graph), edge_weights, Path(folder) / "graph.parhip")
        arguments = [*map(str, (os.getpid(), graph, num_parts, tolerance, output, *seeds))]
        command = [sys.executable, "-m", __name__, *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            running.add(process)
            try:
                status = process.wait()
            finally:
                running.discard(process)
        if status < 0:
            raise LibraryDiedError(
                f"KaMinPar was ended by {signal.Signals(-status).name}",
                remedy="Use a machine with more memory, or another engine, such as two-level.",
            )
        if status or not output.exists():
            raise EngineError("KaMinPar could not partition the graph", found=f"exit code {status}")
        return [*np.load(output)]


def main() -> None:
    """Partition the graph that the command line names, unless the parent dies meanwhile."""
    end_with_parent(int(sys.argv[1]))()
    import kaminpar

    graph, num_parts, tolerance, output, *seeds = sys.argv[2:]
    loaded = kaminpar.load_graph(graph, kaminpar.GraphFileFormat.PARHIP)
    instance = kaminpar.KaMinPar(1, kaminpar.context_by_name(KAMINPAR_PRESET))
    found = []
    for seed in seeds:
        kaminpar.reseed(int(seed))
        parts = instance.compute_partition(loaded, int(num_parts), float(tolerance) - 1)
        found.append(np.array(parts, np.int32))
    np.save(output, np.stack(found))


if __name__ == "__main__":
    main()
