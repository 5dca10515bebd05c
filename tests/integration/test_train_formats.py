"""Outputs of every number of hops and in every sparse format are graphs to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops.chunked.id_converter import InvalidIdError
from partition_ops.errors import UsageError
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from tests.graphs import Edges, SmallGraph, library, social
from tests.train_graphs import assert_blocks_equal, edges_of, in_memory, partitioned, same_bits

dgl = import_dgl()
CITES = ("paper", "cites", "paper")
OPTIONS: list[dict[str, Any]] = [
    {"graph_formats": ("csc",)},
    {"graph_formats": ("csr",)},
    {"graph_formats": ("csr", "csc")},
    {"graph_formats": ("coo", "csc")},
    {"graph_formats": ("coo", "csr", "csc")},
    {"num_hops": 2},
    {"num_hops": 3, "graph_formats": ("csr",)},
]


def assert_same_graph(found: PartitionedGraph, expected: Any) -> None:
    """Every edge, and the blocks of full neighbourhoods."""
    everyone = {ntype: torch.arange(expected.num_nodes(ntype)) for ntype in expected.ntypes}
    found_edges = edges_of(found.in_subgraph(everyone), is_block=False)
    assert found_edges == edges_of(dgl.in_subgraph(expected, everyone), is_block=False)
    sampler = dgl.dataloading.NeighborSampler([-1, -1], fused=False)
    seeds = {ntype: nodes[::3] for ntype, nodes in everyone.items()}
    assert_blocks_equal(sampler.sample(found, seeds)[2], sampler.sample(expected, seeds)[2])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("graph", [library(papers=80), social(people=90)], ids=["library", "social"])
def test_it_is_the_graph_of_the_input(graph: SmallGraph, options: dict[str, Any], tmp_path: Path) -> None:
    uri = partitioned(graph, tmp_path, **options)
    for ids in ("new", "original"):
        with PartitionedGraph(uri, ids=ids, cache=tmp_path / "cache") as found:  # type: ignore[arg-type]
            assert_same_graph(found, in_memory(graph, found.book if ids == "new" else None))
    assert not list((tmp_path / "cache").rglob("edges-src"))  # what was needed while it was made


@pytest.mark.parametrize("formats", [("coo",), ("csr", "csc")], ids=str)
@pytest.mark.parametrize("ids", ["new", "original"])
def test_without_a_halo_one_partition_opens(formats: Any, ids: Any, tmp_path: Path) -> None:
    """It has the edges whose both ends it owns, and the features of all of its edges and of all nodes."""
    graph = library(papers=80)
    uri = partitioned(graph, tmp_path, num_hops=0, graph_formats=formats)
    for part in range(3):
        with PartitionedGraph(uri, parts=[part], ids=ids, cache=tmp_path / "cache") as found:
            whole = in_memory(graph, found.book if ids == "new" else None)
            inside = {
                etype: np.flatnonzero(
                    (found.node_partition(whole.edges(etype=etype)[0], etype[0]) == part)
                    & (found.node_partition(whole.edges(etype=etype)[1], etype[2]) == part)
                )
                for etype in whole.canonical_etypes
            }
            assert {t: found.num_edges(t) for t in found.canonical_etypes} == {
                t: len(edges) for t, edges in inside.items()
            }
            everyone = {ntype: torch.arange(whole.num_nodes(ntype)) for ntype in whole.ntypes}
            there = edges_of(found.in_subgraph(everyone), is_block=False)
            eids = {etype: sorted(e for _, _, e in edges) for etype, edges in there.items()}
            assert eids == {etype: edges.tolist() for etype, edges in inside.items()}
            for etype, edges in there.items():
                src, dst, found_ids = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
                truth = whole.find_edges(found_ids, etype=etype)
                assert torch.equal(src, truth[0]) and torch.equal(dst, truth[1])
            some = torch.from_numpy(inside[CITES])
            rows = found.get_edge_storage("year", CITES).fetch(some, "cpu")
            assert same_bits(rows, whole.edges[CITES].data["year"][some])
            cut = sorted(set(range(whole.num_edges(CITES))) - set(inside[CITES].tolist()))
            with pytest.raises(InvalidIdError, match=f"{cut[0]} is not there"):
                found.find_edges(torch.tensor(cut[:1]), CITES)


def test_without_a_halo_partitions_do_not_open_together(tmp_path: Path) -> None:
    """There would be a graph without the edges between them, and nothing would say so."""
    uri = partitioned(library(papers=40), tmp_path, num_hops=0)
    for parts in (None, [0, 1]):
        with pytest.raises(UsageError, match=r"opened together.*--num-hops 0.*parts=\[0\]"):
            PartitionedGraph(uri, parts=parts, cache=tmp_path / "cache")
    alone = partitioned(library(papers=40), tmp_path / "alone", num_hops=0, num_parts=1)
    with PartitionedGraph(alone, cache=tmp_path / "cache") as found:
        assert_same_graph(found, in_memory(library(papers=40), found.book))


def test_a_compressed_graph_from_s3(s3_root: str, s3_settings: StorageSettings, tmp_path: Path) -> None:
    graph = library(papers=60)
    uri = partitioned(graph, tmp_path, graph_formats=("csc",))
    with open_store(s3_root, s3_settings) as output, open_store(uri) as local:
        for entry in local.list():
            output.write_bytes(entry.key, local.read_bytes(entry.key))
        with PartitionedGraph(output, cache=tmp_path / "cache") as found:
            assert_same_graph(found, in_memory(graph, found.book))


def test_types_without_edges_in_a_partition(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 5, "b": 3}, {"a:to:b": Edges([], []), "b:from:a": Edges([0], [4])})
    uri = partitioned(graph, tmp_path, graph_formats=("csr",))
    with PartitionedGraph(uri, cache=tmp_path / "cache") as found:
        assert_same_graph(found, in_memory(graph, found.book))
