"""Graphs in memory to hold a `PartitionedGraph` against, and what samplers gave in a form to compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import Edges, SmallGraph, Values, library, social

dgl = import_dgl()


REVERSES = {
    "paper:cites:paper": "paper:cited_by:paper",
    "author:writes:paper": "paper:written_by:author",
}


def with_reverses() -> SmallGraph:
    """A library in which edge e of a type is the reverse of edge e of another."""
    graph = library(papers=100)
    for etype, reverse in REVERSES.items():
        edges = graph.edges[etype]
        graph.edges[reverse] = Edges(edges.dst, edges.src)
    return graph


def both_ways() -> tuple[SmallGraph, Any]:
    """A homogeneous graph, and the edge ID of the reverse of each edge."""
    edges = social(people=60).edges["_N:_E:_N"]
    pairs = np.unique(np.sort([edges.src, edges.dst], axis=0), axis=1)
    one, other, count = *pairs.tolist(), pairs.shape[1]
    weights = Values("_N:_E:_N", "weight", np.random.default_rng(0).random(2 * count).astype(np.float32))
    graph = SmallGraph({"_N": 60}, {"_N:_E:_N": Edges(one + other, other + one)}, edge_values=[weights])
    return graph, torch.arange(2 * count).roll(count)


def partitioned(graph: SmallGraph, folder: Path, *, num_parts: int = 3, **options: Any) -> str:
    """Write and partition a graph; URI of the output."""
    uri = str(folder / "output")
    config = RunConfig(**{"num_parts": num_parts, "engine": "random", "on_defect": "warn", **options})
    with open_store(str(graph.write(folder / "input"))) as source, open_store(uri) as destination:
        run_job(config, source, destination)
    return uri


def in_memory(graph: SmallGraph, book: PartitionBook | None = None) -> Any:
    """The input as a ``DGLGraph`` on original IDs, or on new ones where a book is given.

    Edge e of a type is edge e of the input, or the edge whose new ID is e.
    """
    data = {}
    for name, edges in graph.edges.items():
        src_type, rel, dst_type = name.split(":")
        src, dst = np.array(edges.src, np.int64), np.array(edges.dst, np.int64)
        if book is not None:
            order = book.eid_new2orig(np.arange(len(src)), name)
            src = book.nid_orig2new(src[order], src_type)
            dst = book.nid_orig2new(dst[order], dst_type)
        data[src_type, rel, dst_type] = (torch.from_numpy(src), torch.from_numpy(dst))
    made = dgl.heterograph(data, dict(graph.nodes), idtype=torch.int64)
    for value in graph.node_values:
        made.nodes[value.type_name].data[value.name] = feature(value, book, edge=False)
    for value in graph.edge_values:
        made.edges[tuple(value.type_name.split(":"))].data[value.name] = feature(value, book, edge=True)
    return made


def feature(value: Values, book: PartitionBook | None, *, edge: bool) -> torch.Tensor:
    """The rows of a feature in the order of the IDs, as DGL's files have them."""
    rows = np.ascontiguousarray(value.array.astype(value.array.dtype.newbyteorder("=")))
    if book is not None:
        new2orig = book.eid_new2orig if edge else book.nid_new2orig
        rows = rows[new2orig(np.arange(len(rows)), value.type_name)]
    return torch.from_numpy(rows.view(np.uint8) if rows.dtype == np.bool_ else rows)


def edges_of(block: Any, *, is_block: bool = True) -> dict[Any, list[tuple[int, int, int]]]:
    """(source, destination, edge ID), sorted, of every edge type."""
    found = {}
    for etype in block.canonical_etypes:
        src, dst = block.edges(etype=etype)
        if is_block:
            src = block.srcnodes[etype[0]].data[dgl.NID][src]
            dst = block.dstnodes[etype[2]].data[dgl.NID][dst]
        eids = block.edges[etype].data[dgl.EID]
        found[etype] = sorted(zip(src.tolist(), dst.tolist(), eids.tolist(), strict=True))
    return found


def assert_blocks_equal(blocks: list[Any], expected: list[Any]) -> None:
    """The same layers: the seeds in the same order, outputs first among the inputs, the rest as sets.

    DGL's sampler itself gives the edges of a node, and with them the nodes of inner layers, in random order.
    """
    assert len(blocks) == len(expected)
    for block, other in zip(blocks, expected, strict=True):
        assert block.canonical_etypes == other.canonical_etypes
        assert edges_of(block) == edges_of(other)
        for ntype in block.ntypes:
            outputs = block.dstnodes[ntype].data[dgl.NID].tolist()
            inputs = block.srcnodes[ntype].data[dgl.NID].tolist()
            others = other.dstnodes[ntype].data[dgl.NID].tolist()
            assert outputs == others if block is blocks[-1] else sorted(outputs) == sorted(others)
            assert inputs[: len(outputs)] == outputs
            assert sorted(inputs) == sorted(other.srcnodes[ntype].data[dgl.NID].tolist())


def sample_in_another_process(graph: Any, seeds: torch.Tensor, answers: Any) -> None:
    """Here and not beside its test, as a spawned process imports the whole module."""
    answers.put(graph.in_subgraph({"paper": seeds}).edges["cites"].data[dgl.EID].tolist())


def same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Also where a NaN is not equal to itself."""
    one, other = found.numpy(), expected.numpy()
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
