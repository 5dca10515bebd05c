"""Compile the loops of the library ahead of time, by running jobs over a small graph."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.chunked.equal_keys import find_equal_keys
from partition_ops.chunked.metadata import load_metadata
from partition_ops.formats.columns import StoredArray
from partition_ops.formats.parmetis.output_edges import mark_new
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.incremental.matching import best_matching
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters, merge
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of
from partition_ops.stages.partition.multilevel.improve import improve
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.search import fill_up
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.partition.training import with_traffic
from partition_ops.stages.prepare.half_edges import digit_room, sort_range
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import Store, open_store
from partition_ops.traffic.kept_half_edges import KeptHalfEdges
from partition_ops.traffic.options import SamplingOptions
from partition_ops.traffic.reached_edges import reached
from partition_ops.traffic.sampled_edges import collect_edges
from partition_ops.train.features import FileRows
from partition_ops.train.sorted_edges import SortedEdges

NODES, EDGES = 4_000, 20_000  # enough for several levels of the engine two-level
GROWN = 1.05
MANY_PARTS = 130  # more than 8 bits can number
CLUSTER = 4  # nodes


def compile_loops() -> float:
    """Run a job, an incremental job and the text preparation over a random graph in a temporary folder.

    numba keeps the compiled code, see `partition_ops.system.compilation`; later processes on the same kind of
    processor load it.

    Returns:
        Seconds that it took.
    """
    began = time.monotonic()
    config = RunConfig(num_parts=2, engine="two-level", formats=("dgl", "graphbolt"), probe=True)
    config = replace(config, graph_formats=("coo", "csr", "csc"), data_docs=False, ignore_estimate=True)
    config = replace(config, graphbolt_attributes=("eids", "inner_edge"))
    with tempfile.TemporaryDirectory(prefix="partition-ops-compile-") as folder:
        root = Path(folder)
        for name, factor in (("first", 1.0), ("grown", GROWN)):
            _write_graph(root / name, factor)
        first, second, text = (open_store(str(root / name)) for name in ("run", "run-grown", "text"))
        run_job(config, open_store(str(root / "first")), first)
        run_job(config, open_store(str(root / "grown")), second, previous=first)
        auto = replace(
            config, engine="auto", probe=False, formats=("dgl",), validation_tasks=2, prepare_tasks=2
        )
        run_job(auto, open_store(str(root / "first")), open_store(str(root / "run-auto")))
        for hops in (0, 2):
            other = replace(config, engine="random", num_hops=hops, out_edges=hops > 0, probe=False)
            run_job(other, open_store(str(root / "first")), open_store(str(root / f"{hops}-hops")))
        prepare_graph(PrepareConfig(format="parmetis"), open_store(str(root / "first")), text)
        _compile_variants(open_store(str(root / "first")), first)
    return time.monotonic() - began


def _compile_variants(source: Store, run: Store) -> None:
    """Compile what a small graph does not use: for many edges, many partitions, and light ones."""
    room = np.zeros(2, np.int64), np.zeros(2, np.int64), np.empty(2, np.int32), digit_room(2)
    sort_range(0, 1, np.array([1, 0], np.uint16), np.array([~0, 1], np.int32), *room)
    metadata, sampling = load_metadata(source), SamplingOptions(train_nodes=("b",), batch_size=NODES // 8)
    config = PartitionConfig(num_parts=2, objective="train", sampling=sampling)
    problem = with_traffic(Problem(config, metadata, run, source))
    find_engine("auto").partition(problem)
    if problem.traffic is not None:  # the graph has edges and train nodes
        parts = np.arange(sum(metadata.num_nodes), dtype=np.int32) % MANY_PARTS
        problem.traffic.traffic(parts, MANY_PARTS)
    problem = Problem(PartitionConfig(num_parts=MANY_PARTS), metadata, run)
    graph, constraints = Graph.of_input(problem.graph), constraints_of(problem)
    smaller, numbers = contract(graph, find_clusters(graph, CLUSTER, 0))
    for each, limits in ((graph, constraints), (smaller, constraints.contracted(numbers, smaller.num_nodes))):
        parts = np.zeros(each.num_nodes, np.int32)
        improve(each, limits, parts, 0)
    if find_spec("mpi4py") is not None:
        _compile_for_ranks(Problem(PartitionConfig(num_parts=2), metadata, run))
    for bits in (32, 63):  # keys whose rests have 32 bits, and larger ones
        find_equal_keys([[np.full(2, 1 << bits - 1, np.int64)]])
    twice = np.zeros(2, np.int64), np.ones(2, np.int64)  # parallel edges, of two edges and of two types
    edges = collect_edges(2, [(0, 2), (0, 2)], 4, [(0, *twice), (1, *twice)])
    reached(edges, np.array([True, False]), 1)
    with tempfile.TemporaryDirectory(prefix="partition-ops-compile-") as folder:
        other = open_store(folder)
        with closing(KeptHalfEdges()) as kept:
            prepare_graph(PrepareConfig(), source, other, half_edges=kept)
            kept.take()
    best_matching(np.eye(2, dtype=np.int64))
    fill_up(graph, constraints, np.zeros(graph.num_nodes, np.int32), np.ones(MANY_PARTS, np.int64), 1.0)
    _compile_for_readers(source)


def _compile_for_readers(source: Store) -> None:
    """Compile what training uses, and the conversion of ParMETIS' output."""
    one, path = np.zeros(1, np.int64), source.local_copy("metadata.json")
    SortedEdges(np.array([0, 1]), one, one).contain(one, one)
    array = StoredArray(path.name, 0, np.dtype(np.uint8), (1, 1))
    FileRows(lambda: path, array, path.name).read(one, one, np.zeros((1, 1), np.uint8))
    mark_new(one, np.zeros(1, np.bool_))


def _compile_for_ranks(problem: Problem) -> None:
    """Compile what MPI's ranks use: they have narrow arrays."""
    graph, limits = Graph.of_input(problem.graph), constraints_of(problem)
    graph = graph._replace(offsets=graph.offsets.astype(np.int32))
    classes, degrees = limits.classes.astype(np.int8), limits.in_degrees.astype(np.int32)
    limits = limits._replace(classes=classes, in_degrees=degrees)
    smaller, numbers = contract(graph, find_clusters(graph, CLUSTER, 0))
    limits.contracted(numbers, smaller.num_nodes)
    merge(smaller, smaller, smaller.num_nodes)
    refine(graph, limits, np.zeros(graph.num_nodes, np.int32))


def _write_graph(folder: Path, factor: float) -> None:
    """Write a graph of two node types and two edge types; a larger factor continues the same graph."""
    random = np.random.default_rng(0)
    folder.mkdir()
    nodes = {"a": int(NODES * factor), "b": int(NODES / 2 * factor)}
    ends = [("a", "to", "b"), ("b", "of", "b")]
    document: dict[str, Any] = {
        "graph_name": "random",
        "node_type": list(nodes),
        "num_nodes_per_chunk": [[count] for count in nodes.values()],
        "edge_type": [":".join(names) for names in ends],
        "num_edges_per_chunk": [],
        "edges": {},
        "node_data": {"a": {}},
        "edge_data": {},
    }
    for source, relation, target in ends:
        pairs = random.random((EDGES, 2))
        rows = np.unique((pairs**2 * (nodes[source], nodes[target])).astype(np.int64), axis=0)
        rows = rows[rows[:, 0] != rows[:, 1]]
        path = folder / f"{relation}.csv"
        np.savetxt(path, rows, fmt="%d")
        name = f"{source}:{relation}:{target}"
        document["num_edges_per_chunk"].append([len(rows)])
        file_format = {"name": "csv", "delimiter": " "}
        document["edges"][name] = {"format": file_format, "data": [path.name]}
    for feature, dtype, width in (("feat", np.float32, 4), ("label", np.int64, 1), ("mask", np.bool_, 1)):
        path = folder / f"{feature}.npy"
        np.save(path, random.random((nodes["a"], width)).astype(dtype))
        document["node_data"]["a"][feature] = {"format": {"name": "numpy"}, "data": [path.name]}
    (folder / "metadata.json").write_text(json.dumps(document))
