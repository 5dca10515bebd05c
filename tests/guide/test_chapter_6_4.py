"""Chapter 6.4, customizing neighborhood samplers, in its order.

The tests run on a `PartitionedGraph` of the chapter's graph, with the original IDs, and on the ``DGLGraph``
in memory. ``cluster_client.py`` runs the samplers on a ``DistGraph``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pytest
import torch

from partition_ops.errors import UsageError
from partition_ops.train import PartitionedGraph
from partition_ops.train.samplers import (
    DropoutSampler,
    FanoutSampler,
    FullNeighborSampler,
    LocalitySampler,
    remote_share,
)
from partition_ops.train.samplers import FrontierSampler as BlockSampler
from tests.graphs import Edges, SmallGraph, Values, library
from tests.guide.chapter_6_4 import DST, SRC
from tests.train_graphs import assert_blocks_equal, edges_of, in_memory, partitioned

RNG = np.random.default_rng(0)
GRAPH = SmallGraph(
    {"_N": 12},
    {"_N:_E:_N": Edges(SRC, DST)},
    node_values=[
        Values("_N", "x", RNG.normal(size=(12, 5)).astype(np.float32)),
        Values("_N", "y", RNG.normal(size=(12, 1)).astype(np.float32)),
    ],
)
LIBRARY = library(papers=60)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    graphs = {"chapter": GRAPH, "library": LIBRARY}
    return {name: partitioned(graph, tmp_path_factory.mktemp(name)) for name, graph in graphs.items()}


@pytest.fixture(params=["partitioned", "in memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def graph_of(kind: str, output: str, source: SmallGraph, cache: Path) -> Iterator[Any]:
    if kind == "in memory":
        yield in_memory(source)
        return
    with PartitionedGraph(output, ids="original", cache=cache) as found:
        yield found


@pytest.fixture
def g(kind: str, outputs: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    yield from graph_of(kind, outputs["chapter"], GRAPH, tmp_path)


@pytest.fixture
def hg(kind: str, outputs: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    yield from graph_of(kind, outputs["library"], LIBRARY, tmp_path)


def test_pencil_and_paper(g: Any) -> None:
    assert g.ndata["x"].shape == (12, 5) and g.ndata["y"].shape == (12, 1)
    seeds = torch.LongTensor([8])
    frontier = dgl.in_subgraph(g, seeds)
    src, dst = frontier.all_edges()
    assert sorted(src.tolist()) == [4, 5, 7, 11]
    assert set(dst.tolist()) == {8} and frontier.num_nodes() == 12

    output_nodes = torch.LongTensor([8])
    block = dgl.to_block(frontier, output_nodes)
    num_input_nodes, num_output_nodes = block.number_of_src_nodes(), block.number_of_dst_nodes()
    assert (num_input_nodes, num_output_nodes) == (5, 1)

    block.srcdata["h"] = torch.randn(num_input_nodes, 5)
    block.dstdata["h"] = torch.randn(num_output_nodes, 5)

    # the features of the graph can be read from the block
    input_nodes, output_nodes = block.srcdata[dgl.NID], block.dstdata[dgl.NID]
    x, y = (torch.from_numpy(v.array) for v in GRAPH.node_values)
    assert torch.equal(block.srcdata["x"], x[input_nodes])
    assert torch.equal(block.dstdata["y"], y[output_nodes])
    assert torch.equal(input_nodes[: len(output_nodes)], output_nodes)


def test_outputs_must_cover_the_destinations(g: Any) -> None:
    seeds = torch.LongTensor([4, 5, 7, 8, 11])
    frontier2 = dgl.in_subgraph(g, seeds)

    class Uncovered(BlockSampler):
        def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
            return frontier2

    # dgl.to_block(frontier2, torch.LongTensor([4, 5])) of dgl 1.1.3 makes edges to nodes that are not there
    with pytest.raises(UsageError, match=r"not among the seeds.*Found: 9 of 17 edges of _N:_E:_N"):
        Uncovered(1).sample(g, torch.LongTensor([4, 5]))
    block3 = dgl.to_block(frontier2, torch.LongTensor([4, 5, 7, 8, 11, 3]))
    assert 3 in block3.srcdata[dgl.NID]
    assert block3.dstdata[dgl.NID].tolist() == [4, 5, 7, 8, 11, 3]
    assert block3.in_degrees(5) == 0


def test_heterogeneous_blocks(hg: Any) -> None:
    seeds = {"paper": torch.tensor([3, 6, 8]), "venue": torch.tensor([2, 1])}
    hetero_block = dgl.to_block(dgl.in_subgraph(hg, seeds), seeds)
    papers = hetero_block.srcnodes["paper"].data
    assert papers[dgl.NID][:3].tolist() == [3, 6, 8]
    assert hetero_block.dstnodes["venue"].data[dgl.NID].tolist() == [2, 1]
    feat = next(v.array for v in LIBRARY.node_values if v.name == "feat")
    assert papers["feat"].numpy().tobytes() == feat[papers[dgl.NID].numpy()].tobytes()


def test_samplers_of_dgl(g: Any) -> None:
    """``sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)``, "the following code"."""
    seeds = torch.LongTensor([8, 3])
    expected = dgl.dataloading.NeighborSampler([-1, -1], fused=False).sample(in_memory(GRAPH), seeds)[2]
    for sampler in (
        dgl.dataloading.MultiLayerFullNeighborSampler(2),
        dgl.dataloading.MultiLayerNeighborSampler([-1, -1]),
    ):
        (batch,) = dgl.dataloading.DataLoader(g, seeds, sampler, batch_size=2)
        assert_blocks_equal(batch[2], expected)


class MultiLayerFullNeighborSampler(BlockSampler):
    def __init__(self, n_layers: int) -> None:
        super().__init__(n_layers)

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        frontier = dgl.in_subgraph(g, seed_nodes)
        return frontier


class MultiLayerNeighborSampler(BlockSampler):
    def __init__(self, fanouts: list[int | None]) -> None:
        super().__init__(len(fanouts))

        self.fanouts = fanouts

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        fanout = self.fanouts[block_id]
        if fanout is None:
            frontier = dgl.in_subgraph(g, seed_nodes)
        else:
            frontier = dgl.sampling.sample_neighbors(g, seed_nodes, fanout)
        return frontier


class MultiLayerDropoutSampler(BlockSampler):
    def __init__(self, p: float, n_layers: int) -> None:
        super().__init__()

        self.n_layers = n_layers
        self.p = p

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, *args: Any, **kwargs: Any) -> Any:
        # Get all inbound edges to seed_nodes
        src, dst = dgl.in_subgraph(g, seed_nodes).all_edges()
        # Randomly select edges with a probability of p
        mask = torch.zeros_like(src, dtype=torch.float32).bernoulli_(self.p).bool()
        # Return a new graph with the same nodes as the original graph as a frontier
        return dgl.graph((src[mask], dst[mask]), num_nodes=g.number_of_nodes())

    def __len__(self) -> int:
        return self.n_layers


class HeteroDropoutSampler(MultiLayerDropoutSampler):
    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any, *args: Any, **kwargs: Any) -> Any:
        # Get all inbound edges to seed_nodes
        sg = dgl.in_subgraph(g, seed_nodes)
        # Iterate over all edge types
        masks = {t: torch.zeros(sg.num_edges(t)).bernoulli_(self.p).bool() for t in sg.canonical_etypes}
        return dgl.edge_subgraph(sg, masks, relabel_nodes=False)


def test_the_samplers_of_the_chapter(g: Any) -> None:
    seeds = torch.arange(12)
    expected = dgl.dataloading.NeighborSampler([-1, -1], fused=False).sample(in_memory(GRAPH), seeds)[2]
    for sampler in (MultiLayerFullNeighborSampler(2), MultiLayerNeighborSampler([None, None])):
        assert len(sampler) == 2
        assert_blocks_equal(sampler.sample(g, seeds)[2], expected)
    _, _, blocks = MultiLayerNeighborSampler([None, 2]).sample(g, torch.LongTensor([8]))
    assert blocks[1].in_degrees(0) == 2
    inner = blocks[0].dstdata[dgl.NID].tolist()
    assert blocks[0].in_degrees().tolist() == [DST.count(node) for node in inner]
    assert len(MultiLayerDropoutSampler(0.5, 3)) == 3
    kept = [MultiLayerDropoutSampler(p, 1).sample(g, seeds)[2][0].num_edges() for p in (0, 1)]
    assert kept == [0, len(SRC)]
    torch.manual_seed(0)
    assert 0 < MultiLayerDropoutSampler(0.5, 1).sample(g, seeds)[2][0].num_edges() < len(SRC)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_training_with_the_dropout_sampler(g: Any, num_workers: int) -> None:
    """The chapter's loop."""
    sampler = MultiLayerDropoutSampler(0.5, 2)
    dataloader = dgl.dataloading.DataLoader(
        g,
        torch.arange(12),
        sampler,
        batch_size=5,
        shuffle=True,
        drop_last=False,
        num_workers=num_workers,
    )
    x, y = (torch.from_numpy(v.array) for v in GRAPH.node_values)
    model = dgl.nn.GraphConv(5, 1, allow_zero_in_degree=True)
    opt = torch.optim.Adam(model.parameters())
    seen = 0
    for _, output_nodes, blocks in dataloader:
        # the frontiers are new graphs, which do not have the features
        input_features = x[blocks[0].srcdata[dgl.NID]]
        output_labels = y[blocks[-1].dstdata[dgl.NID]]
        assert torch.equal(blocks[-1].dstdata[dgl.NID], output_nodes)
        h = model(blocks[0], input_features)
        loss = ((model(blocks[1], h.expand(-1, 5)) - output_labels) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += len(output_nodes)
    assert seen == 12


@pytest.mark.parametrize("num_workers", [0, 2])
def test_features_in_blocks_of_a_data_loader(g: Any, num_workers: int) -> None:
    """The workers send blocks, and the rows of features are read where they are used."""
    x, y = (torch.from_numpy(v.array) for v in GRAPH.node_values)
    loader = dgl.dataloading.DataLoader(
        g, torch.arange(12), MultiLayerFullNeighborSampler(2), batch_size=5, num_workers=num_workers
    )
    for _, _, blocks in loader:
        input_features = blocks[0].srcdata
        output_labels = blocks[-1].dstdata
        assert torch.equal(input_features["x"], x[input_features[dgl.NID]])
        assert torch.equal(output_labels["y"], y[output_labels[dgl.NID]])


def test_heterogeneous_dropout(hg: Any) -> None:
    seeds = {"paper": torch.arange(30)}
    sampler = HeteroDropoutSampler(0.5, 2)
    blocks = sampler.sample(hg, seeds)[2]
    whole = MultiLayerFullNeighborSampler(2).sample(hg, seeds)[2]
    assert 0 < blocks[1].num_edges("writes") < whole[1].num_edges("writes")
    assert blocks[1].canonical_etypes == hg.canonical_etypes


SAMPLERS = [
    FullNeighborSampler(2),
    FanoutSampler([3, None]),
    FanoutSampler([{"writes": None, "cites": 2, "in": 1}, 2]),
    DropoutSampler(0.3, 2),
    LocalitySampler([2, None]),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_our_samplers(hg: Any, sampler: BlockSampler) -> None:
    """They draw edges of the graph, none of those that are excluded, and keep features and IDs."""
    seeds = {"paper": torch.arange(40), "venue": torch.arange(5)}
    truth = in_memory(LIBRARY)
    excluded = {("paper", "cites", "paper"): torch.arange(0, truth.num_edges("cites"), 2)}
    assert len(sampler) == 2
    for exclude in (None, excluded):
        _, _, blocks = sampler.sample_blocks(hg, seeds, exclude)
        for block in blocks:
            for etype, edges in edges_of(block).items():
                src, dst, ids = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
                true_src, true_dst = truth.find_edges(ids, etype=etype)
                assert torch.equal(src, true_src) and torch.equal(dst, true_dst)
            ids = block.edges["cites"].data[dgl.EID]
            assert torch.equal(block.edges["cites"].data["year"], truth.edges["cites"].data["year"][ids])
            assert exclude is None or not (ids % 2 == 0).any()
    assert blocks[1].num_edges("writes") > 0


def test_locality_by_the_partitions_of_a_dgl_graph() -> None:
    g = in_memory(GRAPH)
    sampler = LocalitySampler([1], remote_weight=0)
    assert remote_share(sampler.sample(g, torch.arange(12))[2]) == 0
    g.ndata["part_id"] = torch.arange(12) % 2
    block = sampler.sample(g, torch.arange(12))[2][0]
    src, dst = block.edges()
    assert block.num_edges() > 0
    assert torch.equal(block.srcdata[dgl.NID][src] % 2, block.dstdata[dgl.NID][dst] % 2)
    assert remote_share(LocalitySampler([None]).sample(g, torch.arange(12))[2]) == pytest.approx(
        np.mean(np.array(SRC) % 2 != np.array(DST) % 2)
    )


def test_edges_without_ids_cannot_be_excluded(g: Any) -> None:
    sampler = MultiLayerDropoutSampler(1, 1)
    with pytest.raises(UsageError, match=r"dgl\.EID"):
        sampler.sample_blocks(g, torch.arange(12), torch.tensor([0]))


def test_a_sampler_without_a_number_of_layers_says_so(g: Any) -> None:
    class Forgetful(BlockSampler):
        def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
            return dgl.in_subgraph(g, seed_nodes)

    with pytest.raises(UsageError, match="how many layers"):
        Forgetful().sample(g, torch.arange(12))
