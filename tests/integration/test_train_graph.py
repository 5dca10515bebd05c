"""DGL's loaders and samplers get the same from the artifacts as from the graph in memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from partition_ops.chunked.id_converter import InvalidIdError
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from tests.graphs import SHAPES, SmallGraph, library, social
from tests.strategies import graphs
from tests.temporary import temporary_folder
from tests.train_graphs import (
    assert_blocks_equal,
    edges_of,
    in_memory,
    partitioned,
    same_bits,
    sample_in_another_process,
)

dgl = import_dgl()
CITES = ("paper", "cites", "paper")
WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[SmallGraph, str]]]:
    found = {}
    for name, graph in {"library": library(papers=120), "social": social(people=150), **SHAPES}.items():
        folder = tmp_path_factory.mktemp("train")
        found[name] = graph, partitioned(graph, folder, num_parts=graph.parts(3))
    yield found


@pytest.fixture
def pair(made: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, PartitionedGraph]]:
    """The graph in memory and the one on disk, by (name, kind of ID)."""
    name, ids = request.param
    graph, uri = made[name]
    with PartitionedGraph(uri, ids=ids, cache=tmp_path) as on_disk:
        yield in_memory(graph, on_disk.book if ids == "new" else None), on_disk


IDS = ("new", "original")
BOTH = [(name, ids) for name in ("library", "social") for ids in IDS]
ALL = [(name, ids) for name in ("library", "social", *SHAPES) for ids in IDS]


def seeds_of(graph: Any, share: float = 1.0) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {
        ntype: torch.randperm(graph.num_nodes(ntype))[: int(np.ceil(share * graph.num_nodes(ntype)))]
        for ntype in graph.ntypes
    }


def plain(layers: int) -> Any:
    """DGL's full-neighbour sampler for a graph in memory.

    By ``to_block``, not fused: the fused one of dgl 1.1.3 leaves seeds of a type that has no in-edge types
    out of the inputs of a block.
    """
    return dgl.dataloading.NeighborSampler([-1] * layers, fused=False)


def batches(graph: Any, seeds: Any, sampler: Any, **options: Any) -> list[Any]:
    return list(dgl.dataloading.DataLoader(graph, seeds, sampler, batch_size=16, **options))


@pytest.mark.parametrize("pair", ALL, indirect=True, ids=str)
def test_full_neighbour_blocks_equal_those_in_memory(pair: Any) -> None:
    expected, found = pair
    assert found.ntypes == expected.ntypes and found.canonical_etypes == expected.canonical_etypes
    for etype in expected.canonical_etypes:
        assert found.num_edges(etype) == expected.num_edges(etype)
        assert torch.equal(found.in_degrees(etype=etype), expected.in_degrees(etype=etype))
        assert torch.equal(found.out_degrees(etype=etype), expected.out_degrees(etype=etype))
    seeds = seeds_of(expected)
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    both = zip(batches(found, seeds, sampler), batches(expected, seeds, plain(2)), strict=True)
    for (_, outputs, blocks), (_, other_outputs, others) in both:
        assert {k: v.tolist() for k, v in outputs.items()} == {
            k: v.tolist() for k, v in other_outputs.items()
        }
        assert_blocks_equal(blocks, others)


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
def test_the_edges_equal_those_of_the_fused_sampler_too(pair: Any) -> None:
    expected, found = pair
    seeds = seeds_of(expected)
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    both = zip(batches(found, seeds, sampler), batches(expected, seeds, sampler), strict=True)
    for (_, _, blocks), (_, _, others) in both:
        assert [edges_of(block) for block in blocks] == [edges_of(block) for block in others]


@pytest.mark.parametrize("pair", [("library", "new"), ("library", "original")], indirect=True, ids=str)
def test_seeds_that_no_edge_type_leads_to_stay_unlike_in_the_fused_sampler_in_memory(pair: Any) -> None:
    """Authors only write. DGL's sampler is fused by default, and has two ways for the two kinds of graph."""
    expected, found = pair
    seeds = {"author": torch.arange(20)}
    fused, by_to_block = (dgl.dataloading.NeighborSampler([-1, -1], fused=fused) for fused in (True, False))
    inputs, _, blocks = fused.sample(found, seeds)
    assert torch.equal(inputs["author"], seeds["author"])
    assert_blocks_equal(blocks, by_to_block.sample(expected, seeds)[2])
    lost = fused.sample(expected, seeds)[2]
    # if this fails, DGL has fixed it: remove the remarks about it
    assert [block.num_src_nodes("author") for block in lost] == [0, 0]


@pytest.mark.parametrize("access", ["read", "mapped", "ranges"])
@pytest.mark.parametrize("ids", IDS)
def test_rows_come_in_any_order_and_again(made: Any, access: Any, ids: Any, tmp_path: Path) -> None:
    """Also with next to no memory for what is mapped or fetched."""
    graph, uri = made["library"]
    options = {"resident_bytes": 0, "row_cache_bytes": 0}
    with PartitionedGraph(uri, ids=ids, cache=tmp_path, features=access, **options) as found:
        expected = in_memory(graph, found.book if ids == "new" else None)
        nodes = torch.randint(found.num_nodes("paper"), (500,))
        for name in found.node_features("paper"):
            rows = found.get_node_storage(name, "paper").fetch(nodes, "cpu")
            assert same_bits(rows, expected.nodes["paper"].data[name][nodes])
            assert len(found.get_node_storage(name, "paper").fetch(nodes[:0], "cpu")) == 0


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_prefetched_are_the_rows_of_the_input(pair: Any, workers: int) -> None:
    expected, found = pair
    features = {t: list(expected.nodes[t].data) for t in expected.ntypes if expected.nodes[t].data}
    on_edges = {t: list(expected.edges[t].data) for t in expected.canonical_etypes if expected.edges[t].data}
    sampler = dgl.dataloading.NeighborSampler(
        [3, 4], prefetch_node_feats=features, prefetch_labels=features, prefetch_edge_feats=on_edges
    )
    loaded = batches(found, seeds_of(expected), sampler, num_workers=workers)
    assert len(loaded) > 5
    for _, _, blocks in loaded:
        for ntype, names in features.items():
            for name in names:
                for end in (blocks[0].srcnodes, blocks[-1].dstnodes):
                    rows = end[ntype].data
                    assert same_bits(rows[name], expected.nodes[ntype].data[name][rows[dgl.NID]])
        for block in blocks:
            for etype, names in on_edges.items():
                rows = block.edges[etype].data
                assert all(same_bits(rows[n], expected.edges[etype].data[n][rows[dgl.EID]]) for n in names)


@pytest.mark.long
@settings(max_examples=25)
@given(graph=graphs(), data=st.data())
def test_any_graph_gives_the_blocks_and_features_of_memory(graph: SmallGraph, data: st.DataObject) -> None:
    ids = data.draw(st.sampled_from(IDS))
    parts = graph.parts(data.draw(st.integers(1, 3)))
    with temporary_folder() as folder:
        uri = partitioned(graph, Path(folder), num_parts=parts)
        with PartitionedGraph(uri, ids=ids, cache=Path(folder) / "cache") as found:
            expected = in_memory(graph, found.book if ids == "new" else None)
            sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
            seeds = seeds_of(expected)
            _, _, blocks = sampler.sample(found, seeds)
            assert_blocks_equal(blocks, plain(2).sample(expected, seeds)[2])
            for ntype, nodes in seeds.items():
                for name, values in expected.nodes[ntype].data.items() if len(nodes) else ():
                    rows = found.get_node_storage(name, ntype).fetch(nodes, "cpu")
                    assert same_bits(rows, values[nodes])
            for etype in expected.canonical_etypes:
                edges = torch.randperm(expected.num_edges(etype))
                for name, values in expected.edges[etype].data.items() if len(edges) else ():
                    rows = found.get_edge_storage(name, etype).fetch(edges, "cpu")
                    assert same_bits(rows, values[edges])
                ends = found.find_edges(edges, etype), expected.find_edges(edges, etype=etype)
                assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("replace", [False, True])
def test_sampled_edges_exist_and_are_as_many_as_asked_for(pair: Any, direction: str, replace: bool) -> None:
    expected, found = pair
    seeds = seeds_of(expected, 0.5)
    frontier = found.sample_neighbors(seeds, 3, edge_dir=direction, replace=replace)
    for etype in expected.canonical_etypes:
        src, dst = frontier.edges(etype=etype)
        eids = frontier.edges[etype].data[dgl.EID]
        true_src, true_dst = expected.find_edges(eids, etype=etype)
        assert torch.equal(src, true_src) and torch.equal(dst, true_dst)
        ntype, end, degrees = (
            (etype[2], dst, expected.in_degrees)
            if direction == "in"
            else (etype[0], src, expected.out_degrees)
        )
        full = degrees(seeds[ntype], etype=etype)
        wanted = torch.where(full > 0, 3, 0) if replace else full.clamp(max=3)
        drawn = torch.bincount(end, minlength=expected.num_nodes(ntype))
        assert torch.equal(drawn[seeds[ntype]], wanted)
        assert int(drawn.sum()) == int(wanted.sum())
        assert replace or len(eids.unique()) == len(eids)


@pytest.mark.parametrize("pair", [("library", "new"), ("library", "original")], indirect=True, ids=str)
def test_fanout_by_edge_type_and_excluded_edges(pair: Any) -> None:
    expected, found = pair
    seeds = seeds_of(expected)
    fanout = {CITES: 2, WRITES: 0, ("paper", "in", "venue"): -1}
    frontier = found.sample_neighbors(seeds, fanout)
    assert frontier.num_edges("writes") == 0
    assert frontier.num_edges("in") == expected.num_edges("in")
    excluded = torch.arange(0, expected.num_edges("cites"), 2)
    left = found.sample_neighbors(seeds, -1, exclude_edges={"cites": excluded})
    kept = set(range(expected.num_edges("cites"))) - set(excluded.tolist())
    assert set(left.edges["cites"].data[dgl.EID].tolist()) == kept
    assert left.num_edges("writes") == expected.num_edges("writes")


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
def test_neighbours_are_drawn_uniformly(pair: Any) -> None:
    """The draws of each edge of the node with most in-edges, by a chi-squared test that a bias would fail."""
    expected, found = pair
    ntype, etype = expected.canonical_etypes[0][2], expected.canonical_etypes[0]
    if len(expected.ntypes) > 1:
        ntype, etype = "paper", CITES
    node = int(expected.in_degrees(etype=etype).argmax())
    _, _, edges = expected.in_edges(node, form="all", etype=etype)
    dgl.seed(5)
    counts = dict.fromkeys(edges.tolist(), 0)
    for _ in range(2000):
        for eid in (
            found.sample_neighbors({ntype: torch.tensor([node])}, 2).edges[etype].data[dgl.EID].tolist()
        ):
            counts[eid] += 1
    assert len(counts) >= 5
    assert chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("pair", [("social", "new"), ("social", "original")], indirect=True, ids=str)
def test_probabilities_are_those_of_the_feature(pair: Any) -> None:
    expected, found = pair
    node = int(expected.in_degrees().argmax())
    _, _, edges = expected.in_edges(node, form="all")
    weights = expected.edata["weight"][edges]
    dgl.seed(5)
    counts = dict.fromkeys(edges.tolist(), 0)
    for _ in range(6000):
        drawn = found.sample_neighbors(torch.tensor([node]), 1, prob="weight")
        counts[int(drawn.edata[dgl.EID][0])] += 1
    shares = (weights / weights.sum() * 6000).tolist()
    assert chisquare(list(counts.values()), shares).pvalue > 1e-3
    assert chisquare(list(counts.values())).pvalue < 1e-3  # the weights do differ


@pytest.mark.parametrize("pair", [("library", "new"), ("library", "original")], indirect=True, ids=str)
def test_a_mask_of_another_dtype_rules_edges_out(pair: Any) -> None:
    """``year`` is int16, which DGL's kernels do not take: it becomes float32."""
    expected, found = pair
    drawn = found.sample_neighbors(seeds_of(expected), 5, prob="year")
    assert drawn.num_edges("cites") > 0
    assert drawn.num_edges("writes") == found.sample_neighbors(seeds_of(expected), 5).num_edges("writes")
    with pytest.raises(UsageError, match="No edge type has the feature 'weight'"):
        found.sample_neighbors(seeds_of(expected), 5, prob="weight")


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
def test_subgraphs_equal_those_in_memory(pair: Any) -> None:
    expected, found = pair
    seeds = seeds_of(expected, 0.3)
    one, other = found.in_subgraph(seeds), dgl.in_subgraph(expected, seeds)
    assert edges_of(one, is_block=False) == edges_of(other, is_block=False)
    one, other = found.out_subgraph(seeds), dgl.out_subgraph(expected, seeds)
    assert edges_of(one, is_block=False) == edges_of(other, is_block=False)
    edges = {t: torch.randperm(expected.num_edges(t))[:9] for t in expected.canonical_etypes}
    one = found.edge_subgraph(edges, relabel_nodes=False)
    other = expected.edge_subgraph(edges, relabel_nodes=False)
    for etype, eids in edges.items():
        assert torch.equal(one.edges[etype].data[dgl.EID], eids)
        assert all(
            torch.equal(a, b) for a, b in zip(one.edges(etype=etype), other.edges(etype=etype), strict=True)
        )
        pairs = [torch.randint(expected.num_nodes(t), (200,)) for t in (etype[0], etype[2])]
        assert torch.equal(
            found.has_edges_between(*pairs, etype), expected.has_edges_between(*pairs, etype=etype)
        )


def test_one_partition_has_its_own_edges_and_every_feature(made: Any, tmp_path: Path) -> None:
    graph, uri = made["library"]
    with (
        PartitionedGraph(uri, cache=tmp_path) as whole,
        PartitionedGraph(uri, parts=[1], cache=tmp_path) as one,
    ):
        assert one.num_nodes("paper") == whole.num_nodes("paper")
        owned = torch.from_numpy(one.book.partid2nids(1, "paper"))
        sampler = dgl.dataloading.MultiLayerFullNeighborSampler(1)
        _, _, blocks = sampler.sample(one, {"paper": owned})
        assert_blocks_equal(blocks, sampler.sample(whole, {"paper": owned})[2])
        assert one.num_edges() < whole.num_edges()
        assert one.num_edges("cites") == len(one.book.partid2eids(1, "cites"))
        rows = one.get_node_storage("feat", "paper").fetch(torch.arange(one.num_nodes("paper")), "cpu")
        assert same_bits(rows, in_memory(graph, one.book).nodes["paper"].data["feat"])
        elsewhere = int(one.book.partid2eids(0, "cites")[0])
        with pytest.raises(InvalidIdError, match=f"{elsewhere} is not there: its partition is not open"):
            one.find_edges(torch.tensor([elsewhere]), "cites")


@pytest.mark.parametrize("access", ["ranges", "mapped", "read"])
@pytest.mark.parametrize("ids", IDS)
def test_from_s3(
    s3_root: str, s3_settings: StorageSettings, made: Any, access: Any, ids: Any, tmp_path: Path
) -> None:
    graph, uri = made["library"]
    with open_store(s3_root, s3_settings) as output, open_store(uri) as local:
        for entry in local.list():
            output.write_bytes(entry.key, local.read_bytes(entry.key))
        with PartitionedGraph(output, ids=ids, cache=tmp_path, features=access, asynchronous=True) as found:
            expected = in_memory(graph, found.book if ids == "new" else None)
            sampler = dgl.dataloading.MultiLayerFullNeighborSampler(
                2, prefetch_node_feats={"paper": ["feat", "label"]}, prefetch_edge_feats={CITES: ["year"]}
            )
            loaded = batches(expected, seeds_of(expected), plain(2))
            both = zip(batches(found, seeds_of(expected), sampler), loaded, strict=True)
            for (_, _, blocks), (_, _, others) in both:
                assert_blocks_equal(blocks, others)
                rows = blocks[0].srcnodes["paper"].data
                assert same_bits(rows["feat"], expected.nodes["paper"].data["feat"][rows[dgl.NID]])
            assert (found.blocks.requests > 0) == (access == "ranges")
            assert (len([*tmp_path.glob("file-*.lock")]) > 0) == (access != "ranges")


def test_a_spawned_process_opens_it_again(made: Any, tmp_path: Path) -> None:
    _, uri = made["library"]
    context = multiprocessing.get_context("spawn")
    with PartitionedGraph(uri, ids="original", cache=tmp_path) as graph:
        answers = context.Queue()
        seeds = torch.arange(20)
        process = context.Process(target=sample_in_another_process, args=(graph, seeds, answers))
        process.start()
        found = answers.get(timeout=120)
        process.join()
        assert found == graph.in_subgraph({"paper": seeds}).edges["cites"].data[dgl.EID].tolist()


def test_wrong_ids_and_names_are_named(made: Any, tmp_path: Path) -> None:
    _, uri = made["library"]
    with PartitionedGraph(uri, cache=tmp_path, asynchronous=True) as graph:
        with pytest.raises(
            InvalidIdError, match=r"node type 'paper' is out of range at position 1.*Found: 120"
        ):
            graph.sample_neighbors({"paper": torch.tensor([0, 120])}, 2)
        with pytest.raises(
            UsageError, match=r"no node feature 'paper/colour'.*'feat', 'label', 'train_mask'"
        ):
            graph.get_node_storage("colour", "paper")
        with pytest.raises(InvalidIdError, match="out of range"):
            graph.get_node_storage("feat", "paper").fetch(torch.tensor([-1]), "cpu").wait()
        with pytest.raises(UsageError, match="node type is missing"):
            graph.sample_neighbors(torch.tensor([0]), 2)
        with pytest.raises(InvalidIdError, match="no edge type 'likes'"):
            graph.find_edges(torch.tensor([0]), "likes")
    with pytest.raises(UsageError, match="no such partition"):
        PartitionedGraph(uri, parts=[3], cache=tmp_path)
    with pytest.raises(InvalidInputError, match="not a finished output"):
        PartitionedGraph(str(tmp_path), cache=tmp_path)
    with pytest.raises(UsageError, match="no such IDs"):
        PartitionedGraph(uri, ids="homogeneous", cache=tmp_path)  # type: ignore[arg-type]
