"""Mt-KaHyPar in a process of its own: it ends the process if it fails, and its seed and threads are global.

Run as a script, the module imports nothing of this package, so that the process starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from array import array
from pathlib import Path

NAMES = ("sources", "targets", "node_weights", "edge_weights", "most", "seed")  # files of int64
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
NO_MEMORY = 4  # exit code; the library itself ends with 1 if it refuses a graph


def main() -> None:
    """Partition the graph in a folder with one thread, and write the partition of each node there."""
    parent, folder, preset = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    import mtkahypar

    sources, targets, node_weights, edge_weights, most, (seed,) = (read(folder / name) for name in NAMES)
    start = mtkahypar.initialize(1)
    context = start.context_from_preset(getattr(mtkahypar.PresetType, preset))
    context.set_partitioning_parameters(len(most), 0.03, mtkahypar.Objective.CUT)
    context.set_individual_target_block_weights(most)
    context.logging = False
    edges = list(zip(sources, targets, strict=True))
    graph = start.create_graph(context, len(node_weights), len(edges), edges, node_weights, edge_weights)
    mtkahypar.set_seed(seed)  # further graphs in this process would depend on the first one, too
    found = array("i", graph.partition(context).get_partition())
    (folder / "parts").write_bytes(found.tobytes())


def read(path: Path) -> list[int]:
    values = array("q")
    values.frombytes(path.read_bytes())
    return values.tolist()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        sys.exit(NO_MEMORY)
