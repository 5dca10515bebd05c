"""KaMinPar in a process of its own: its module keeps the interpreter's lock, and its seed is global.

python -m partition_ops.stages.partition.multilevel.kaminpar_process GRAPH PARTS TOLERANCE SEED OUTPUT
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from partition_ops.errors import EngineError
from partition_ops.stages.partition.problem import Parts

PRESET = "strong"
running: set[subprocess.Popen[bytes]] = set()


def start_with_kaminpar(graph: Path, num_parts: int, tolerance: float, seed: int) -> Parts:
    """Partition a ParHIP file with one thread, which makes the result depend on the seed only.

    KaMinPar balances all nodes together, whatever their types.

    Returns:
        (nodes,) int32.

    Raises:
        EngineError: KaMinPar failed.
    """
    with tempfile.TemporaryDirectory(prefix="partition-ops-kaminpar-") as folder:
        output = Path(folder) / "parts.npy"
        arguments = [*map(str, (graph, num_parts, tolerance, seed, output))]
        command = [sys.executable, "-m", __name__, *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            running.add(process)
            try:
                status = process.wait()
            finally:
                running.discard(process)
        if status or not output.exists():
            raise EngineError("KaMinPar could not partition the graph", found=f"exit code {status}")
        parts: Parts = np.load(output)
        return parts


def main() -> None:
    """Partition the graph that the command line names."""
    import kaminpar

    graph, num_parts, tolerance, seed, output = sys.argv[1:]
    kaminpar.reseed(int(seed))
    loaded = kaminpar.load_graph(graph, kaminpar.GraphFileFormat.PARHIP)
    instance = kaminpar.KaMinPar(1, kaminpar.context_by_name(PRESET))
    parts = instance.compute_partition(loaded, int(num_parts), float(tolerance) - 1)
    np.save(output, np.array(parts, np.int32))


if __name__ == "__main__":
    main()
