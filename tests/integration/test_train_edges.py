"""Edge classification and link prediction on the artifacts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import partition_ops
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import UsageError
from partition_ops.jobs.changes import find_changes
from partition_ops.jobs.open_graph import open_graph
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from partition_ops.train.samplers import FanoutSampler, ReverseTypes
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import both_ways, edges_of, in_memory, partitioned, with_reverses

dgl = import_dgl()
CITES, CITED = ("paper", "cites", "paper"), ("paper", "cited_by", "paper")
WRITES, WRITTEN = ("author", "writes", "paper"), ("paper", "written_by", "author")
REVERSE = {CITES: CITED, CITED: CITES, WRITES: WRITTEN, WRITTEN: WRITES}
IDS = ("new", "original")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[SmallGraph, str]]:
    made = {"library": with_reverses(), "social": social(people=120)}
    return {name: (g, partitioned(g, tmp_path_factory.mktemp(name))) for name, g in made.items()}


@pytest.fixture
def pair(
    outputs: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Any, PartitionedGraph]]:
    name, ids = request.param
    graph, uri = outputs[name]
    with PartitionedGraph(uri, ids=ids, cache=tmp_path) as found:
        yield in_memory(graph, found.book if ids == "new" else None), found


BOTH = [(name, ids) for name in ("library", "social") for ids in IDS]
LIBRARY = [("library", ids) for ids in IDS]


def seeds_of(graph: Any) -> Any:
    if graph.is_homogeneous:
        return torch.arange(graph.num_edges())
    return {t: torch.arange(0, graph.num_edges(t), 3) for t in (CITES, WRITES)}


def batches(graph: Any, sampler: Any, **options: Any) -> list[Any]:
    return list(dgl.dataloading.DataLoader(graph, seeds_of(graph), sampler, batch_size=20, **options))


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
@pytest.mark.parametrize("exclude", [None, "self"])
def test_edge_classification_equals_that_in_memory(pair: Any, exclude: str | None) -> None:
    expected, found = pair
    inner = dgl.dataloading.NeighborSampler([-1, -1], fused=False)
    label = {CITES: ["year"]} if len(found.ntypes) > 1 else ["weight"]
    sampler = dgl.dataloading.as_edge_prediction_sampler(inner, exclude=exclude, prefetch_labels=label)
    both = list(zip(batches(found, sampler), batches(expected, sampler), strict=True))
    assert len(both) > 2
    for (_, pairs, blocks), (_, other_pairs, others) in both:
        assert _pairs(pairs) == _pairs(other_pairs)
        assert [edges_of(b) for b in blocks] == [edges_of(b) for b in others]
        etype, name = (CITES, "year") if len(found.ntypes) > 1 else (found.canonical_etypes[0], "weight")
        ids = pairs.edges[etype].data[dgl.EID]
        assert torch.equal(pairs.edges[etype].data[name], expected.edges[etype].data[name][ids])


def _pairs(graph: Any) -> dict[Any, list[tuple[int, int, int]]]:
    """Edges of a compacted pair graph by the graph's own IDs, in order."""
    found = {}
    for etype in graph.canonical_etypes:
        src, dst = graph.edges(etype=etype)
        src, dst = graph.nodes[etype[0]].data[dgl.NID][src], graph.nodes[etype[2]].data[dgl.NID][dst]
        eids = graph.edges[etype].data.get(dgl.EID, src)
        found[etype] = list(zip(src.tolist(), dst.tolist(), eids.tolist(), strict=True))
    return found


@pytest.mark.parametrize("pair", LIBRARY, indirect=True, ids=str)
def test_reverse_types_leave_neither_the_edge_nor_its_reverse(pair: Any) -> None:
    _, found = pair
    inner = dgl.dataloading.NeighborSampler([-1])
    sampler = dgl.dataloading.as_edge_prediction_sampler(inner, exclude=ReverseTypes(found, REVERSE))
    for _, pairs, blocks in batches(found, sampler):
        there = edges_of(blocks[0])
        for etype in (CITES, WRITES):
            wanted = {(s, d, e) for s, d, e in _pairs(pairs)[etype]}
            assert not wanted & set(there[etype])
            # a reverse may stay only where the same two nodes are joined by another edge too
            ends = {(d, s) for s, d, _ in wanted}
            gone = {(s, d) for s, d, _ in there[REVERSE[etype]]} & ends
            assert not gone
    if found.ids == "original":  # there, DGL's own rule does the same
        own = dgl.dataloading.as_edge_prediction_sampler(
            inner, exclude="reverse_types", reverse_etypes=REVERSE
        )
        _, _, blocks = own.sample(found, {CITES: torch.arange(5)})
        same = sampler.sample(found, {CITES: torch.arange(5)})[2]
        assert [edges_of(b) for b in blocks] == [edges_of(b) for b in same]


@pytest.mark.parametrize("pair", LIBRARY, indirect=True, ids=str)
def test_what_is_not_excluded_is_there(pair: Any) -> None:
    """All in-edges of the ends but the excluded ones, no more and no fewer."""
    _, found = pair
    rule = ReverseTypes(found, REVERSE)
    sampler = dgl.dataloading.as_edge_prediction_sampler(dgl.dataloading.NeighborSampler([-1]), exclude=rule)
    seeds = {CITES: torch.arange(10)}
    _, _, (block,) = sampler.sample(found, seeds)
    every = found.in_subgraph({"paper": block.dstnodes["paper"].data[dgl.NID]})
    excluded = rule(seeds)
    assert {t: len(ids) for t, ids in excluded.items()} == {CITES: 10, CITED: 10}
    for etype in found.canonical_etypes:
        gone = set(excluded.get(etype, torch.empty(0)).tolist())
        left = set(every.edges[etype].data[dgl.EID].tolist()) - gone
        assert set(block.edges[etype].data[dgl.EID].tolist()) == left


def test_reverse_edges_of_the_same_type_and_a_pickled_book(tmp_path: Path) -> None:
    """Edge e + E is the reverse of edge e in the input. Processes of a data loader get the book by pickle."""
    graph, reverse = both_ways()
    uri = partitioned(graph, tmp_path)
    with open_store(uri) as output, PartitionBook(output) as book:
        truth = in_memory(graph, book)
        rule = pickle.loads(pickle.dumps(ReverseTypes(book, {}, {"_E": reverse})))
        edges = torch.arange(7)
        src, dst = truth.find_edges(edges)
        expected = torch.cat([edges, book.eid_orig2new(reverse[book.eid_new2orig(edges, "_E")], "_E")])
        assert rule.of_batch(truth, edges).tolist() == expected.unique().tolist()
        ends = torch.stack(truth.find_edges(rule(edges))).T.tolist()
        assert all([d, s] in ends for s, d in zip(src.tolist(), dst.tolist(), strict=True))
        shifted = ReverseTypes(book, {}, {"_E": reverse.roll(1)})
        with pytest.raises(UsageError, match="are not the reverse of edges of _N:_E:_N"):
            shifted.of_batch(truth, edges)
        with pytest.raises(UsageError, match="exclude="):
            FanoutSampler([2], reverse=rule).sample_blocks(truth, torch.arange(3))


@pytest.mark.parametrize("name", ["library", "social"])
def test_reverse_edges_that_the_input_names_are_left_out(name: str, tmp_path: Path) -> None:
    """A graph with ``--reverse-edges``: `ReverseTypes` needs no types, and DGL finds the same edges."""
    graph = library(papers=60) if name == "library" else social(people=40)
    folder, uri = graph.write(tmp_path / "input"), str(tmp_path / "output")
    options = {"num_parts": 3, "engine": "random", "on_defect": "warn", "ignore_estimate": True}
    partition_ops.run(folder, uri, reverse_edges=True, **options)
    assert partition_ops.verify(folder, uri).passed
    with PartitionedGraph(uri, cache=tmp_path / "cache") as found:
        calls = {
            etype: reverse for etype, reverse in found.book.reverse_etypes.items() if "rev_" not in etype[1]
        }
        assert len(calls) == len(graph.edges)
        rule = ReverseTypes(found)
        for etype, reverse in calls.items():
            seeds = torch.arange(0, found.num_edges(etype), 2)
            excluded = rule({etype: seeds})
            ends = [torch.stack(found.find_edges(excluded[one], etype=one)) for one in (etype, reverse)]
            wanted = torch.stack(found.find_edges(seeds, etype=etype))
            both = {*zip(*wanted.tolist(), strict=True)}
            if etype == reverse:
                assert {*zip(*ends[0].tolist(), strict=True)} == both | {(d, s) for s, d in both}
                assert torch.isin(seeds, excluded[etype]).all() and len(excluded[etype]) <= 2 * len(seeds)
            else:
                assert len(excluded[reverse]) == len(seeds)
                assert {*zip(*ends[1].flip(0).tolist(), strict=True)} == both
                year = found.edges[etype].data.get("year"), found.edges[reverse].data.get("year")
                if etype[1] == "cites":
                    of = found.book.eid_orig2new(found.book.eid_new2orig(seeds, etype), reverse)
                    assert torch.equal(year[0][seeds], year[1][of])


def test_a_graph_that_names_reverse_edges_of_one_type_keeps_its_types(tmp_path: Path) -> None:
    """Later commands take the types of the run: it was not made with ``--reverse-edges``."""
    folder, uri = library(papers=60).write(tmp_path / "input"), str(tmp_path / "output")
    document = json.loads((folder / "metadata.json").read_text())
    name = document["edge_type"][0]
    src, rel, dst = name.split(":")
    (folder / "metadata.json").write_text(
        json.dumps({**document, "reverse_edges": {name: f"{dst}:by_{rel}:{src}"}})
    )
    options = {"num_parts": 3, "engine": "random", "on_defect": "warn", "ignore_estimate": True}
    partition_ops.run(folder, uri, **options)
    report = partition_ops.verify(folder, uri)
    assert report.passed, report
    with open_graph(str(folder), output=open_store(uri)) as graph:
        assert not find_changes(graph, open_store(uri)).any
        assert name in load_metadata(graph).reverse_edges and len(load_metadata(graph).reverse_edges) == 2


@pytest.mark.parametrize("pair", BOTH, indirect=True, ids=str)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["PerSourceUniform", "GlobalUniform"])
def test_link_prediction(pair: Any, workers: int, kind: str) -> None:
    expected, found = pair
    negatives = getattr(dgl.dataloading.negative_sampler, kind)(3)
    inner = dgl.dataloading.NeighborSampler([4])
    sampler = dgl.dataloading.as_edge_prediction_sampler(inner, exclude="self", negative_sampler=negatives)
    for _, positive, negative, blocks in batches(found, sampler, num_workers=workers):
        assert positive.ntypes == negative.ntypes == found.ntypes
        nodes = {t: positive.nodes[t].data[dgl.NID] for t in found.ntypes}
        assert all(torch.equal(ids, blocks[-1].dstnodes[t].data[dgl.NID]) for t, ids in nodes.items())
        for etype in found.canonical_etypes:
            src, dst = negative.edges(etype=etype)
            src, dst = nodes[etype[0]][src], nodes[etype[2]][dst]
            asked = 3 * positive.num_edges(etype)
            if kind == "PerSourceUniform":
                wanted = nodes[etype[0]][positive.edges(etype=etype)[0]].repeat_interleave(3)
                assert torch.equal(src, wanted)
            elif asked:
                assert 0 < len(src) <= asked
                assert not expected.has_edges_between(src, dst, etype=etype).any()
                assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == len(src)
                assert etype[0] != etype[2] or not (src == dst).any()


@pytest.mark.parametrize("pair", [("social", "new")], indirect=True, ids=str)
def test_negative_pairs_are_drawn_uniformly_and_all_of_them(pair: Any) -> None:
    expected, found = pair
    nodes, edges = expected.num_nodes(), expected.num_edges()
    free = nodes * (nodes - 1) - edges
    torch.manual_seed(1)
    src, dst = found.global_uniform_negative_sampling(2000)
    assert len(src) == 2000
    again = torch.manual_seed(1) and found.global_uniform_negative_sampling(2000)
    assert torch.equal(again[0], src) and torch.equal(again[1], dst)
    many, _ = found.global_uniform_negative_sampling(3 * free, replace=False)
    assert 0.9 * free < len(many) <= free
    repeated, _ = found.global_uniform_negative_sampling(3 * free, replace=True)
    assert len(repeated) == 3 * free
    loops = found.global_uniform_negative_sampling(3 * free, exclude_self_loops=False, replace=True)
    assert (loops[0] == loops[1]).any()
