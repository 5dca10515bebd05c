"""``mpirun … python -m tests.spread_ranks``: each step over ranks against the same step in one process."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from partition_ops.stages.partition.mpi import spread_over_ranks
from partition_ops.stages.partition.mpi.mpirun import run_rank
from partition_ops.stages.partition.mpi.spread_over_ranks import SpreadOverRanks
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.graph import NOTHING, Constraints, Graph
from partition_ops.stages.partition.multilevel.refine import refine


def random_graph(random: np.random.Generator) -> Graph:
    """Return a graph with hubs, nodes without neighbours, and communities or none."""
    nodes, edges = int(random.integers(2, 400)), int(random.integers(0, 3000))
    ends = (nodes * random.random((edges, 2)) ** random.choice([1, 3])).astype(np.int64)
    if random.random() < 0.5:
        ends[:, 1] = (ends[:, 0] + random.geometric(0.2, edges)) % nodes
    ends = ends[ends[:, 0] != ends[:, 1]]
    ends = np.unique(np.concatenate([ends, ends[:, ::-1]]), axis=0)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=nodes))])
    return Graph(offsets.astype(np.int64), ends[:, 1].astype(np.int32), NOTHING, NOTHING)


def random_constraints(graph: Graph, random: np.random.Generator) -> tuple[Constraints, np.ndarray]:
    """Return limits on classes, in some cases on in-degrees too, and partitions that may exceed them."""
    parts, count = int(random.integers(2, 6)), int(random.integers(1, 4))
    classes = random.integers(0, count, graph.num_nodes).astype(np.int32)
    degrees, columns = NOTHING, np.arange(count, dtype=np.int32)
    sums = np.bincount(classes, minlength=count)
    if random.random() < 0.5:
        degrees, columns = np.diff(graph.offsets), np.full(count, count, np.int32)
        sums = np.append(sums, degrees.sum())
    most = np.ceil(np.tile(sums / parts * 1.1, (parts, 1))).astype(np.int64)
    limits = Constraints(classes, degrees, columns, np.zeros((0, len(sums)), np.int64), most)
    skewed = parts * random.random(graph.num_nodes) ** random.choice([1, 4])
    return limits, skewed.astype(np.int32)


def compare(comm: Any, seed: int) -> None:
    """Compare clusters, the graph of clusters, and refined partitions of a random graph."""
    random = np.random.default_rng(seed)
    whole = random_graph(random)
    spread = SpreadOverRanks(comm, whole.num_nodes, lambda node: int(whole.offsets[node]), lambda: whole)
    own = whole.offsets[spread.own.start : spread.own.stop + 1]
    piece = spread.take(own - own[0], whole.neighbours[own[0] : own[-1]].copy())
    assert (spread.half_edges(piece), spread.connected(piece)) == (
        whole.num_half_edges,
        np.count_nonzero(np.diff(whole.offsets)),
    )
    most = int(random.integers(1, 50))
    labels = find_clusters(piece, most, seed, spread=spread)
    np.testing.assert_array_equal(labels, find_clusters(whole, most, seed))
    smaller, numbers = contract(piece, labels)
    expected, same = contract(whole, labels)
    np.testing.assert_array_equal(numbers, same)
    together = spread.together(smaller)
    for found, wanted in zip(together, expected, strict=True) if comm.rank == 0 else ():
        np.testing.assert_array_equal(found, wanted)
    assert comm.rank == 0 or (len(together.offsets), together.num_half_edges) == (len(expected.offsets), 0)
    limits, parts = random_constraints(whole, random)
    alone = parts.copy()
    kept = refine(whole, limits, alone)
    assert refine(piece, limits, parts, spread=spread) == kept
    np.testing.assert_array_equal(parts, alone)
    received = (
        spread.once(lambda graph: graph.neighbours[:1].repeat(3), piece, 3) if len(whole.neighbours) else None
    )
    assert received is None or set(received) == {whole.neighbours[0]}


def main(comm: Any) -> None:
    spread_over_ranks.AT_ONCE, spread_over_ranks.MOST_OF_A_MESSAGE = 7, 100  # so that all has several turns
    seeds = range(int(sys.argv[1]))
    for seed in seeds:
        compare(comm, seed)
    comm.barrier()
    if comm.rank == 0:
        print(f"{len(seeds)} graphs over {comm.size} ranks are the same", flush=True)


if __name__ == "__main__":
    run_rank(main)
