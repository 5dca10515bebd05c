"""Run one partitioner on a graph of ``prepare``.

    python -m benchmarks.partitioning FOLDER two-level|metis|"kaminpar PRESET THREADS" PARTS

FOLDER has the graph's ``metadata.json`` and ``prepare/``. Prints the seconds that partitioning took, without
the start of the process, the edge cut of the symmetric graph and the worst imbalance of a node type.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.storage import open_store

KAMINPAR_TOLERANCE = 0.03


def kaminpar(path: Path, preset: str, threads: int, num_parts: int, seed: int = 0) -> np.ndarray:
    """Run KaMinPar, which has one constraint only: all nodes together."""
    import kaminpar

    kaminpar.reseed(seed)
    graph = kaminpar.load_graph(str(path), kaminpar.GraphFileFormat.PARHIP)
    instance = kaminpar.KaMinPar(threads, kaminpar.context_by_name(preset))
    return np.array(instance.compute_partition(graph, num_parts, KAMINPAR_TOLERANCE), np.int32)


def main() -> None:
    folder, name, num_parts = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    store = open_store(str(folder))
    metadata = load_metadata(store)
    problem = Problem(PartitionConfig(num_parts=num_parts), metadata, store, store)
    began = time.monotonic()
    if name.startswith("kaminpar"):
        _, preset, threads = name.split()
        parts = kaminpar(folder / layout.PREPARED_GRAPH, preset, int(threads), num_parts)
    else:
        parts = find_engine(name).partition(problem)
    seconds = time.monotonic() - began
    rows = np.repeat(np.arange(problem.graph.num_nodes), np.diff(problem.graph.offsets))
    cut = float((parts[rows] != parts[problem.graph.neighbours]).mean())
    types = np.searchsorted(metadata.node_offsets[1:], np.arange(problem.graph.num_nodes), side="right")
    cells = np.bincount(parts.astype(np.int64) * len(metadata.node_types) + types)
    counts = cells.reshape(num_parts, -1)
    imbalance = float((counts.max(axis=0) * num_parts / counts.sum(axis=0)).max())
    print(json.dumps({"seconds": seconds, "edge_cut": cut, "imbalance": imbalance}))


if __name__ == "__main__":
    main()
