"""KaMinPar in a process of its own: its module keeps the interpreter's lock, and its seed is global.

python -m partition_ops.stages.partition.multilevel.kaminpar_process PARENT GRAPH PARTS TOLERANCE SEED OUTPUT
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError
from partition_ops.stages.partition.problem import Parts
from partition_ops.system.signals import end_with_parent
from partition_ops.system.temporary_folders import temporary_folder

PRESET = "strong"
running: set[subprocess.Popen[bytes]] = set()


def start_with_kaminpar(graph: Path, num_parts: int, tolerance: float, seed: int) -> Parts:
    """Partition a ParHIP file with one thread, which makes the result depend on the seed only.

    The process ends with this one, even if this one is killed.

    KaMinPar balances all nodes together, whatever their types.

    Returns:
        (nodes,) int32.

    Raises:
        EngineError: KaMinPar failed.
        LibraryDiedError: Its process was killed, or crashed.
    """
    with temporary_folder() as folder:
        output = Path(folder) / "parts.npy"
        arguments = [*map(str, (os.getpid(), graph, num_parts, tolerance, seed, output))]
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
        parts: Parts = np.load(output)
        return parts


def main() -> None:
    """Partition the graph that the command line names, unless the parent dies meanwhile."""
    end_with_parent(int(sys.argv[1]))()
    import kaminpar

    graph, num_parts, tolerance, seed, output = sys.argv[2:]
    kaminpar.reseed(int(seed))
    loaded = kaminpar.load_graph(graph, kaminpar.GraphFileFormat.PARHIP)
    instance = kaminpar.KaMinPar(1, kaminpar.context_by_name(PRESET))
    parts = instance.compute_partition(loaded, int(num_parts), float(tolerance) - 1)
    np.save(output, np.array(parts, np.int32))


if __name__ == "__main__":
    main()
