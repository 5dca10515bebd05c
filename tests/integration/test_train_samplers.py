"""The custom samplers: what they draw, and that their blocks are as ``to_block`` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from partition_ops.train.samplers import (
    DropoutSampler,
    FanoutSampler,
    FrontierSampler,
    FullNeighborSampler,
    LocalitySampler,
    remote_share,
)
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import assert_blocks_equal, edges_of, in_memory, partitioned

dgl = import_dgl()
CITES = ("paper", "cites", "paper")
PAIRS = [(name, ids) for name in ("library", "social") for ids in ("new", "original")]
SAMPLERS = [
    FullNeighborSampler(2),
    FanoutSampler([2, 3]),
    FanoutSampler([2, 3], replace=True),
    DropoutSampler(0.4, 2),
    LocalitySampler([2, 3]),
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[SmallGraph, str]]:
    made = {"library": library(papers=150), "social": social(people=200)}
    return {name: (g, partitioned(g, tmp_path_factory.mktemp(name))) for name, g in made.items()}


@pytest.fixture
def pair(
    outputs: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Any, PartitionedGraph]]:
    name, ids = request.param
    graph, uri = outputs[name]
    with PartitionedGraph(uri, ids=ids, cache=tmp_path) as found:
        yield in_memory(graph, found.book if ids == "new" else None), found


def seeds_of(graph: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    return {t: torch.randperm(graph.num_nodes(t))[: max(2, graph.num_nodes(t) // 3)] for t in graph.ntypes}


@pytest.mark.parametrize("pair", PAIRS, indirect=True, ids=str)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("workers", [0, 1])
def test_blocks_are_sound(pair: Any, sampler: FrontierSampler, workers: int) -> None:
    expected, found = pair
    loader = dgl.dataloading.DataLoader(
        found, seeds_of(expected), sampler, batch_size=32, num_workers=workers
    )
    for inputs, outputs, blocks in loader:
        assert len(blocks) == 2
        _assert_ids(blocks[0].srcnodes, found, inputs)
        _assert_ids(blocks[-1].dstnodes, found, outputs)
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            for ntype in found.ntypes:
                src, dst = (end[ntype].data[dgl.NID] for end in (block.srcnodes, block.dstnodes))
                assert torch.equal(src[: len(dst)], dst)  # outputs first, isolated seeds too
                assert following is None or torch.equal(dst, following.srcnodes[ntype].data[dgl.NID])
            for etype, edges in edges_of(block).items():
                src, dst, ids = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
                truth = expected.find_edges(ids, etype=etype)
                assert torch.equal(src, truth[0]) and torch.equal(dst, truth[1])


def _assert_ids(frame: Any, graph: PartitionedGraph, ids: Any) -> None:
    ids = ids if isinstance(ids, dict) else {graph.ntypes[0]: ids}
    for ntype, nodes in ids.items():
        assert torch.equal(frame[ntype].data[dgl.NID], nodes)


@pytest.mark.parametrize("pair", PAIRS, indirect=True, ids=str)
def test_the_full_sampler_equals_dgl_s(pair: Any) -> None:
    expected, found = pair
    seeds = seeds_of(expected)
    blocks = dgl.dataloading.NeighborSampler([-1, -1], fused=False).sample(expected, seeds)[2]
    for sampler in (FullNeighborSampler(2), FanoutSampler([-1, -1]), DropoutSampler(0, 2)):
        assert_blocks_equal(sampler.sample(found, seeds)[2], blocks)
        assert_blocks_equal(sampler.sample(expected, seeds)[2], blocks)  # they take a DGLGraph too
    assert_blocks_equal(LocalitySampler([-1, -1]).sample(found, seeds)[2], blocks)


@pytest.mark.parametrize("pair", [("social", "new")], indirect=True, ids=str)
def test_dropout_drops_the_share_it_says(pair: Any) -> None:
    expected, found = pair
    torch.manual_seed(7)
    everyone = torch.arange(found.num_nodes())
    drawn = [DropoutSampler(0.25, 1).sample(found, everyone)[2][0].num_edges() for _ in range(40)]
    total = 40 * expected.num_edges()
    assert abs(sum(drawn) / total - 0.75) < 4 * (0.25 * 0.75 / total) ** 0.5
    assert DropoutSampler(1, 1).sample(found, everyone)[2][0].num_edges() == 0
    with pytest.raises(UsageError, match="Expected: 0 to 1"):
        DropoutSampler(1.5, 1)


@pytest.mark.parametrize("pair", PAIRS, indirect=True, ids=str)
def test_locality_is_preferred_and_told(pair: Any) -> None:
    _, found = pair
    seeds = {t: torch.arange(found.num_nodes(t)) for t in found.ntypes}

    def share(weight: float) -> float:
        blocks = LocalitySampler([1], remote_weight=weight).sample(found, seeds)[2]
        (block,), remote = blocks, 0
        for etype, edges in edges_of(block).items():
            src, dst, _ = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
            owners = [_owner(found, ids, t) for ids, t in ((src, etype[0]), (dst, etype[2]))]
            remote += int((owners[0] != owners[1]).sum())
        assert remote_share(blocks) == pytest.approx(remote / block.num_edges())
        return remote_share(blocks)

    dgl.seed(1)
    nothing, preferred, uniform = share(0), share(0.05), share(1)
    assert nothing == 0
    assert preferred < 0.75 * uniform
    with pytest.raises(UsageError, match="negative"):
        LocalitySampler([2], remote_weight=-1)


def _owner(graph: PartitionedGraph, ids: torch.Tensor, ntype: str) -> torch.Tensor:
    """The partition of nodes, from the ID maps and not from the sampler's own vectors."""
    new = graph.book.nid_orig2new(ids, ntype) if graph.ids == "original" else ids
    return graph.book.nid2partid(new, ntype)  # type: ignore[no-any-return]


@pytest.mark.parametrize("pair", [("library", "new"), ("library", "original")], indirect=True, ids=str)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_excluded_edges_are_not_drawn(pair: Any, sampler: FrontierSampler) -> None:
    _, found = pair
    whole = dgl.dataloading.as_edge_prediction_sampler(sampler, exclude="self")
    _, pairs, blocks = whole.sample(found, {CITES: torch.arange(0, found.num_edges(CITES), 2)})
    gone = set(pairs.edges[CITES].data[dgl.EID].tolist())
    drawn = {e for block in blocks for e in block.edges[CITES].data[dgl.EID].tolist()}
    assert drawn and not drawn & gone
