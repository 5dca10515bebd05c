"""The note 'Extending DGL Graph Sampling Pipeline', in its order, with a `PartitionedGraph` as the graph."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
import torch

from partition_ops.chunked.id_converter import InvalidIdError
from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import AsyncMemmapStorage, MemmapStorage, PartitionedGraph
from partition_ops.train.graph_data import GraphData
from tests.graphs import library
from tests.train_graphs import edges_of, in_memory, partitioned

dgl = import_dgl()
CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
PAPERS = 120


class CustomGraph(PartitionedGraph):
    """The note's custom graph: its own node data, in memory-mapped files, and the edges of an output."""

    def __init__(self, output: str, files: Path, **options: Any) -> None:
        self.node_data = {"paper": {"x": np.load(files / "x.npy", mmap_mode="r")}}
        super().__init__(output, **options)
        self.fetched = 0

    def get_node_storage(self, key: str, ntype: str | None = None) -> Any:
        self.fetched += 1
        return MemmapStorage(self.node_data[ntype or "paper"][key])


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(library(papers=PAPERS), tmp_path_factory.mktemp("note"))


@pytest.fixture
def graph(output: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PartitionedGraph]:
    with PartitionedGraph(output, cache=tmp_path_factory.getbasetemp() / "cache") as found:
        yield found


@pytest.fixture
def same(graph: PartitionedGraph) -> Any:
    """The same graph as a ``DGLGraph`` in memory."""
    return in_memory(library(papers=PAPERS), graph.book)


def test_methods_have_the_signatures_of_the_note() -> None:
    positional = {
        name: [p.name for p in inspect.signature(method).parameters.values() if p.kind is not p.KEYWORD_ONLY]
        for name, method in inspect.getmembers(PartitionedGraph, inspect.isfunction)
    }
    assert positional["sample_neighbors"] == [
        "self",
        *("seed_nodes", "fanout", "edge_dir", "prob", "replace", "exclude_edges", "output_device"),
    ]
    assert positional["edge_subgraph"] == ["self", "seed_edges", "relabel_nodes", "output_device"]
    assert positional["to_canonical_etype"] == ["self", "etype"]
    assert positional["num_nodes"] == ["self", "ntype"]
    assert positional["get_node_storage"] == ["self", "key", "ntype"]


def test_sample_neighbors_by_position_and_by_name(graph: PartitionedGraph) -> None:
    seeds = {"paper": torch.arange(PAPERS)}
    excluded = {CITES: torch.arange(0, graph.num_edges(CITES), 2)}
    for frontier in (
        graph.sample_neighbors(seeds, -1, "in", None, False, excluded, "cpu"),
        graph.sample_neighbors(
            seed_nodes=seeds,
            fanout=-1,
            edge_dir="in",
            prob=None,
            replace=False,
            exclude_edges=excluded,
            output_device="cpu",
        ),
    ):
        left = frontier.edges[CITES].data[dgl.EID].tolist()
        assert sorted(left) == list(range(1, graph.num_edges(CITES), 2))
        assert frontier.num_edges(WRITES) == graph.num_edges(WRITES)
    with pytest.raises(TypeError, match="positional"):
        graph.sample_neighbors(seeds, -1, "in", None, False, None, None, True)  # type: ignore[misc]
    with pytest.raises(TypeError, match="copy_everything"):
        graph.sample_neighbors(seeds, -1, copy_everything=True)  # type: ignore[call-arg]


def test_edge_subgraph_by_position_and_by_name(graph: PartitionedGraph, same: Any) -> None:
    edges = {"cites": torch.tensor([5, 3]), WRITES: torch.tensor([0])}
    expected = edges_of(same.edge_subgraph(edges, relabel_nodes=False), is_block=False)
    assert edges_of(graph.edge_subgraph(edges, False, "cpu"), is_block=False) == expected
    assert edges_of(graph.edge_subgraph(seed_edges=edges, relabel_nodes=False), is_block=False) == expected
    relabelled = graph.edge_subgraph(edges, True)
    assert relabelled.num_nodes("venue") == 0


@pytest.mark.parametrize("negative", [False, True])
def test_as_edge_prediction_sampler(graph: PartitionedGraph, negative: bool) -> None:
    sampler = dgl.dataloading.as_edge_prediction_sampler(
        dgl.dataloading.NeighborSampler([4, 4]),
        negative_sampler=dgl.dataloading.negative_sampler.Uniform(2) if negative else None,
    )
    loader = dgl.dataloading.DataLoader(graph, {"cites": torch.arange(40)}, sampler, batch_size=16)
    found = [batch[1].num_edges(CITES) for batch in loader]
    assert found == [16, 16, 8]


def test_feature_prefetching(graph: PartitionedGraph, same: Any) -> None:
    sampler = dgl.dataloading.NeighborSampler(
        [15, 10, 5], prefetch_node_feats={"paper": ["feat"]}, prefetch_labels={"paper": ["label"]}
    )
    loader = dgl.dataloading.DataLoader(
        graph,
        {"paper": torch.arange(PAPERS)},
        sampler,
        device="cpu",
        batch_size=32,
        shuffle=True,
        drop_last=False,
        num_workers=0,
    )
    for _, _, blocks in loader:
        x, y = blocks[0].srcnodes["paper"].data, blocks[-1].dstnodes["paper"].data
        assert torch.equal(x["feat"].isnan(), same.nodes["paper"].data["feat"][x[dgl.NID]].isnan())
        assert torch.equal(y["label"], same.nodes["paper"].data["label"][y[dgl.NID]])
        # features that are not prefetched are read on access
        grid = blocks[0].srcnodes["author"].data
        assert torch.equal(grid["grid"], same.nodes["author"].data["grid"][grid[dgl.NID]])


def test_data_of_the_graph_is_read_when_it_is_indexed(graph: PartitionedGraph, same: Any) -> None:
    feature = graph.nodes["paper"].data["label"]
    expected = same.nodes["paper"].data["label"]
    assert feature.shape == expected.shape and feature.dtype == expected.dtype and len(feature) == PAPERS
    assert feature[[0, 10, 20]].tolist() == expected[[0, 10, 20]].tolist()
    assert feature[5].item() == expected[5].item() and feature[2:9:3].tolist() == expected[2:9:3].tolist()
    ids = torch.tensor([[4, 2], [2, 3]])
    assert torch.equal(feature[ids], expected[ids])
    mask = graph.nodes["paper"].data["train_mask"]
    assert torch.equal(torch.nonzero(mask), torch.nonzero(same.nodes["paper"].data["train_mask"]))
    assert torch.equal(feature[mask[:] != 0], expected[mask[:] != 0])
    assert np.asarray(feature).tolist() == expected.tolist()
    with pytest.raises(InvalidIdError, match="out of range"):
        feature[[PAPERS]]
    with pytest.raises(UsageError, match="mask does not fit"):
        feature[torch.ones(3, dtype=torch.bool)]
    assert set(graph.nodes["paper"].data) == {"feat", "label", "train_mask"}
    assert "grid" not in graph.nodes["paper"].data and graph.nodes("author").tolist() == list(range(60))
    assert torch.equal(graph.edges["cites"].data["year"][:], same.edges["cites"].data["year"])
    assert graph.ndata["grid"]["author"].shape == (60, 2, 3)
    assert torch.equal(graph.edata["year"][CITES][[1]], same.edges["cites"].data["year"][[1]])
    assert not graph.is_pinned()
    with pytest.raises(UsageError, match=r"cannot be set.*Found: x.*get_node_storage"):
        graph.nodes["paper"].data["x"] = torch.zeros(PAPERS)


def test_functions_of_dgl_that_take_the_graph(graph: PartitionedGraph, same: Any) -> None:
    seeds = {"paper": torch.arange(50), "venue": torch.tensor([1])}
    both = [edges_of(dgl.in_subgraph(one, seeds), is_block=False) for one in (graph, same)]
    assert both[0] == both[1] == edges_of(graph.in_subgraph(seeds), is_block=False)
    frontier = dgl.sampling.sample_neighbors(graph, seeds, 2, exclude_edges={CITES: torch.arange(99)})
    assert not (frontier.edges[CITES].data[dgl.EID] < 99).any()
    years = graph.edges[CITES].data["year"]
    assert torch.equal(frontier.edges[CITES].data["year"], years[frontier.edges[CITES].data[dgl.EID]])
    for function in (dgl.in_subgraph, dgl.sampling.sample_neighbors, dgl.sampling.sample_labors):
        with pytest.raises(InvalidIdError, match=r"node type 'paper' is out of range.*Found: 120"):
            function(graph, {"paper": [3, 120]}, *(() if function is dgl.in_subgraph else (2,)))
    with pytest.raises(UsageError, match="Found: edge_subgraph"):
        dgl.edge_subgraph(graph, {CITES: torch.arange(3)})


@pytest.mark.parametrize("relabel", [True, False])
def test_node_subgraphs_equal_those_in_memory(graph: PartitionedGraph, same: Any, relabel: bool) -> None:
    torch.manual_seed(0)
    nodes = {"paper": torch.randperm(PAPERS)[:70], "author": torch.randperm(60)[:40]}
    found, expected = (one.subgraph(nodes, relabel_nodes=relabel) for one in (graph, same))
    for etype in graph.canonical_etypes:
        one, other = (
            sorted(
                zip(*(t.tolist() for t in (*g.edges(etype=etype), g.edges[etype].data[dgl.EID])), strict=True)
            )
            for g in (found, expected)
        )
        assert one == other
    assert found.num_edges("cites") > 0
    if relabel:
        assert torch.equal(found.nodes["paper"].data[dgl.NID], nodes["paper"])
        assert torch.equal(found.nodes["paper"].data["label"], expected.nodes["paper"].data["label"])


@pytest.mark.parametrize("direction", ["in", "out"])
def test_relabelled_subgraphs_equal_those_in_memory(
    graph: PartitionedGraph, same: Any, direction: str
) -> None:
    """``relabel_nodes=True`` keeps the nodes of the edges, and the seeds, such as papers without edges."""
    seeds = {"paper": torch.tensor([8, 3, 8]), "venue": torch.tensor([1])}
    found = getattr(graph, f"{direction}_subgraph")(seeds, relabel_nodes=True)
    expected = getattr(dgl, f"{direction}_subgraph")(same, seeds, relabel_nodes=True)
    for ntype in graph.ntypes:
        both = [one.nodes[ntype].data[dgl.NID] for one in (found, expected)]
        assert both[0].sort().values.tolist() == both[1].sort().values.tolist()
    for etype in graph.canonical_etypes:
        eids = found.edges[etype].data[dgl.EID]
        assert sorted(eids.tolist()) == sorted(expected.edges[etype].data[dgl.EID].tolist())
        ends = (
            found.nodes[t].data[dgl.NID][end]
            for t, end in zip(etype[::2], found.edges(etype=etype), strict=True)
        )
        assert all(map(torch.equal, ends, same.find_edges(eids, etype=etype)))
    papers = found.nodes["paper"].data
    assert torch.equal(papers["label"], same.nodes["paper"].data["label"][papers[dgl.NID]])
    bare = getattr(graph, f"{direction}_subgraph")(seeds, relabel_nodes=True, store_ids=False)
    assert dgl.NID not in bare.nodes["paper"].data and dgl.EID not in bare.edges["cites"].data


@pytest.mark.parametrize("workers", [0, 1])
def test_labor_and_shadow(graph: PartitionedGraph, same: Any, workers: int) -> None:
    seeds = {"paper": torch.arange(PAPERS)}
    options = {"batch_size": 60, "num_workers": workers}
    samplers = [dgl.dataloading.LaborSampler([3, 3]), dgl.dataloading.LaborSampler([2], prob="year")]
    for sampler in samplers:
        for _, _, blocks in dgl.dataloading.DataLoader(graph, seeds, sampler, **options):
            for etype, edges in edges_of(blocks[0]).items():
                src, dst, ids = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
                assert all(map(torch.equal, (src, dst), same.find_edges(ids, etype=etype)))
            assert blocks[0].num_edges(CITES) > 0
    shadow = dgl.dataloading.ShaDowKHopSampler([3, 3], prefetch_node_feats={"paper": ["label"]})
    for inputs, outputs, sub in dgl.dataloading.DataLoader(graph, seeds, shadow, **options):
        papers = sub.nodes["paper"].data
        assert torch.equal(papers[dgl.NID], inputs["paper"])
        assert torch.equal(inputs["paper"][: len(outputs["paper"])], outputs["paper"])
        assert torch.equal(papers["label"], same.nodes["paper"].data["label"][papers[dgl.NID]])
        whole = same.subgraph(dict(inputs))
        assert sub.num_edges(CITES) == whole.num_edges(CITES) > 0
    # all edges, if the fanout is not a limit
    every, _ = graph.sample_labors(seeds, PAPERS)
    assert every.num_edges(CITES) == same.num_edges(CITES)


def test_a_block_reads_features_only_where_the_graph_is_open(
    graph: PartitionedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = dgl.to_block(graph.in_subgraph({"paper": torch.arange(5)}), {"paper": torch.arange(5)})
    sent = pickle.dumps(block)
    rows = pickle.loads(sent).dstnodes["paper"].data["label"]
    assert torch.equal(rows, graph.nodes["paper"].data["label"][:5])
    monkeypatch.setattr(GraphData, "open", WeakSet())  # as in a process that has opened no graph
    with pytest.raises(UsageError, match="belongs to a PartitionedGraph that this process has not opened"):
        pickle.loads(sent)


@pytest.mark.parametrize("shape", [(10,), (10, 4), (10, 2, 3)])
def test_memmap_storage_of_an_array(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.save(tmp_path / "x.npy", values)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    storage, later = MemmapStorage(mapped), AsyncMemmapStorage(mapped)
    for indices in ([1, 2], torch.tensor([1, 2])):
        assert storage.fetch(indices).numpy().tolist() == values[[1, 2]].tolist()
        assert later.fetch(indices, "cpu").wait().numpy().tolist() == values[[1, 2]].tolist()
    assert storage.fetch([]).shape == (0, *shape[1:])
    with pytest.raises(InvalidIdError, match="row is out of range"):
        storage.fetch([-1])


def test_a_pickled_custom_graph_is_one(output: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(2 * PAPERS))
    with (
        CustomGraph(output, tmp_path, cache=tmp_path / "cache", ids="original") as graph,
        pickle.loads(pickle.dumps(graph)) as again,
    ):
        assert type(again) is CustomGraph and again.ids == "original" and again.fetched == 0
        assert again.get_node_storage("x", "paper").fetch([7]).tolist() == [7]
        assert again.num_edges(CITES) == graph.num_edges(CITES)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_custom_graph_with_workers(output: str, tmp_path: Path, context: str) -> None:
    values = np.random.default_rng(0).normal(size=(PAPERS, 3))
    np.save(tmp_path / "x.npy", values)
    sampler = dgl.dataloading.NeighborSampler([3], prefetch_node_feats={"paper": ["x"]})
    with CustomGraph(output, tmp_path, cache=tmp_path / "cache") as graph:
        loader = dgl.dataloading.DataLoader(
            graph,
            {"paper": torch.arange(PAPERS)},
            sampler,
            batch_size=60,
            num_workers=1,
            multiprocessing_context=context,
        )
        for _, _, (block,) in loader:
            rows = block.srcnodes["paper"].data
            assert rows["x"].numpy().tolist() == values[rows[dgl.NID].numpy()].tolist()
        assert graph.fetched > 0
