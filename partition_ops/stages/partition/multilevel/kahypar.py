"""Partitions of a graph by Mt-KaHyPar, which has one balance constraint; see `kahypar_process`."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import LibraryDiedError
from partition_ops.stages.partition.multilevel import kahypar_process
from partition_ops.stages.partition.multilevel.graph import Labels
from partition_ops.stages.partition.multilevel.levels import Level
from partition_ops.system.extras import how_to_install, is_installed
from partition_ops.system.temporary_folders import temporary_folder

logger = logging.getLogger("partition_ops")
running: set[subprocess.Popen[bytes]] = set()


def cut_by_kahypar(level: Level, seed: int, preset: str = "DEFAULT") -> Labels:
    """Return (nodes,) int32 partitions of a graph with one column of weights; one thread makes them.

    So the result depends on the seed only. The process ends with this one, even if this one is killed.

    Raises:
        EngineError: Mt-KaHyPar refused the graph, or is not installed, which a warning says.
        LibraryDiedError: Its process was killed, crashed or ran out of memory.

    Peak memory: in a process of its own, about 400 bytes an edge.
    """
    if not is_installed("mtkahypar"):
        _warn()
        raise EngineError("Mt-KaHyPar is not installed")
    graph, constraints = level.graph, level.constraints
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
    once = rows < graph.neighbours  # each edge has two half-edges
    weights = graph.edge_weights[once] if len(graph.edge_weights) else np.ones(np.count_nonzero(once))
    values = (
        rows[once],
        graph.neighbours[once],
        constraints.columns()[:, 0],
        weights,
        constraints.most[:, 0],
        [seed % 2**31],
    )
    with temporary_folder() as folder:
        for name, array in zip(kahypar_process.NAMES, values, strict=True):
            (Path(folder) / name).write_bytes(np.ascontiguousarray(array, np.int64).tobytes())
        command = [sys.executable, kahypar_process.__file__, str(os.getpid()), str(folder), preset]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            running.add(process)
            try:
                status = process.wait()
            finally:
                running.discard(process)
        output = Path(folder) / "parts"
        if status < 0 or status == kahypar_process.NO_MEMORY:
            how = f"was ended by {signal.Signals(-status).name}" if status < 0 else "ran out of memory"
            raise LibraryDiedError(
                f"Mt-KaHyPar {how}",
                remedy="Use a machine with more memory, or another engine, such as two-level.",
            )
        if status or not output.exists():
            raise EngineError("Mt-KaHyPar could not partition the graph", found=f"exit code {status}")
        return np.frombuffer(output.read_bytes(), np.int32).copy()


@cache
def _warn() -> None:
    """Log, once in a process, that METIS takes the place of Mt-KaHyPar."""
    logger.warning(
        "Mt-KaHyPar is not installed, so METIS partitions this graph of one balance constraint"
        " alone, and may cut more edges. %s",
        how_to_install("kahypar"),
    )
