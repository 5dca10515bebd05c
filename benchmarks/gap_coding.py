"""Bytes and time of neighbour lists as gaps in variable-length code, compared with numbers of 32 bits.

    python -m benchmarks.gap_coding [GRAPH.parhip …]

The first neighbour of a node is coded by its distance to the node, the others by their distance to the one
before, 7 bits to a byte. The time is that of looking up a number for each neighbour, as a sweep of the engine
two-level does, in one thread. Without arguments, the graphs are those that `benchmarks.real_graphs` keeps in
the repository.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.real_graph_sources import FOLDER, all_graphs
from benchmarks.real_graphs import write_chunked
from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import ParhipGraph, open_parhip
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from partition_ops.system.compilation import compiled

SAMPLE, SLICES = 40_000_000, 8  # half-edges of a larger graph, from so many places
MOST_BYTES = 5  # of a gap of 32 bits

Integers = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int32]
Code = npt.NDArray[np.uint8]


def measure(graph: ParhipGraph) -> tuple[float, float, float]:
    """Return bytes of a half-edge in gap code, and nanoseconds a half-edge: 32 bits, and gap code."""
    offsets, neighbours = np.asarray(graph.offsets), graph.narrow_neighbours
    labels = np.arange(graph.num_nodes, dtype=np.int32)
    coded = half_edges = 0
    seconds = [0.0, 0.0]
    for begin, end in _samples(offsets):
        count = int(offsets[end] - offsets[begin])
        code, starts = np.empty(MOST_BYTES * count, np.uint8), np.empty(end - begin, np.int64)
        size = encode(offsets, neighbours, begin, end, code, starts)
        code = code[:size].copy()
        sums = []
        for last in (begin, end):  # the first call compiles, and does no work
            began = time.thread_time()
            sums.append(look_up(offsets, neighbours, begin, last, labels))
            between = time.thread_time()
            sums.append(look_up_gaps(offsets, code, starts, begin, last, labels))
            if last > begin:
                seconds = [seconds[0] + between - began, seconds[1] + time.thread_time() - between]
        if sums[-1] != sums[-2]:
            raise RuntimeError("The code does not give the neighbours")
        coded, half_edges = coded + size, half_edges + count
    plain, gaps = (1e9 * one / half_edges for one in seconds)
    return coded / half_edges, plain, gaps


def _samples(offsets: Integers) -> Iterator[tuple[int, int]]:
    """Yield the first and the last node of each sample."""
    nodes = len(offsets) - 1
    if offsets[-1] <= SAMPLE:
        yield 0, nodes
        return
    for number in range(SLICES):
        begin = nodes * number // SLICES
        yield begin, min(int(np.searchsorted(offsets, offsets[begin] + SAMPLE // SLICES)), nodes)


@compiled
def encode(offsets: Integers, neighbours: Labels, begin: int, end: int, code: Code, starts: Integers) -> int:
    """Write the code of some nodes, and where each node's begins; return the number of bytes."""
    at = 0
    for v in range(begin, end):
        starts[v - begin] = at
        before = np.int64(v)
        for j in range(offsets[v], offsets[v + 1]):
            u = np.int64(neighbours[j])
            gap = u - before - 1
            if j == offsets[v]:
                gap = ((u - before) << 1) ^ ((u - before) >> 63)  # either sign
            before = u
            while gap >= 128:
                code[at] = np.uint8((gap & 127) | 128)
                at += 1
                gap >>= 7
            code[at] = np.uint8(gap)
            at += 1
    return at


@compiled
def look_up_gaps(
    offsets: Integers, code: Code, starts: Integers, begin: int, end: int, labels: Labels
) -> int:
    """Sum the numbers of all neighbours of some nodes, from the code."""
    total = 0
    for v in range(begin, end):
        at, u = starts[v - begin], np.int64(v)
        for k in range(offsets[v + 1] - offsets[v]):
            byte = np.int64(code[at])
            at += 1
            gap, shift = byte & 127, 7
            while byte >= 128:
                byte = np.int64(code[at])
                at += 1
                gap |= (byte & 127) << shift
                shift += 7
            u += gap + 1 if k else (gap >> 1) ^ -(gap & 1)
            total += labels[u]
    return total


@compiled
def look_up(offsets: Integers, neighbours: Labels, begin: int, end: int, labels: Labels) -> int:
    """Sum the numbers of all neighbours of some nodes."""
    total = 0
    for v in range(begin, end):
        for j in range(offsets[v], offsets[v + 1]):
            total += labels[neighbours[j]]
    return total


def _kept_graphs() -> Iterator[tuple[str, ParhipGraph]]:
    for graph in all_graphs(path.stem for path in sorted(FOLDER.glob("*.xz"))):
        with tempfile.TemporaryDirectory() as folder:
            run = open_store(f"{folder}/run")
            source = open_store(str(write_chunked(graph, Path(folder) / "graph")))
            prepare_graph(PrepareConfig(), source, run)
            yield graph.name, open_parhip(run.local_copy(layout.PREPARED_GRAPH))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", type=Path)
    args = parser.parse_args()
    graphs = ((path.name, open_parhip(path)) for path in args.graphs) if args.graphs else _kept_graphs()
    print("| graph | half-edges | bytes in gap code | ns with 32 bits | ns with gap code |")
    print("|---|---:|---:|---:|---:|")
    for name, graph in graphs:
        size, plain, gaps = measure(graph)
        print(f"| {name} | {graph.num_half_edges:,} | {size:.2f} | {plain:.1f} | {gaps:.1f} |", flush=True)


if __name__ == "__main__":
    main()
