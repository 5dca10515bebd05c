"""A graph that validation dropped edges from: original edge IDs have holes, and nothing else moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops.chunked.id_converter import InvalidIdError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from tests.graphs import Edges, SmallGraph, Values
from tests.train_graphs import edges_of, partitioned, same_bits

dgl = import_dgl()
USERS, ITEMS = 40, 25
BUYS, KNOWS, SEEN = ("user", "buys", "item"), ("user", "knows", "user"), ("item", "seen_by", "user")
DROP = {"duplicate_edges": "drop", "self_loop_edges": "drop"}


def with_defects() -> SmallGraph:
    """Duplicates among what is bought and known, self-loops among what is known, neither in a third type."""
    rng = np.random.default_rng(4)
    ends = {
        BUYS: (rng.integers(0, USERS, 300), rng.integers(0, ITEMS, 300)),
        KNOWS: (rng.integers(0, USERS, 300), rng.integers(0, USERS, 300)),
        SEEN: (np.arange(ITEMS), np.arange(ITEMS)),
    }
    return SmallGraph(
        {"user": USERS, "item": ITEMS},
        {":".join(t): Edges(src.tolist(), dst.tolist()) for t, (src, dst) in ends.items()},
        node_values=[Values("item", "feat", rng.random((ITEMS, 3), np.float32))],
        edge_values=[
            Values(":".join(t), "weight", rng.random(len(src), np.float32)) for t, (src, _) in ends.items()
        ],
    )


GRAPH = with_defects()


def kept(etype: Any) -> list[int]:
    """Original IDs of the edges that stay: the first of each pair of ends, and no self-loop."""
    edges, found = GRAPH.edges[":".join(etype)], {}
    for eid, pair in enumerate(zip(edges.src, edges.dst, strict=True)):
        if etype[0] != etype[2] or pair[0] != pair[1]:
            found.setdefault(pair, eid)
    return sorted(found.values())


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(GRAPH, tmp_path_factory.mktemp("dropped"), on_defect=DROP)


@pytest.fixture
def graph(uri: str, tmp_path: Path) -> Iterator[PartitionedGraph]:
    with PartitionedGraph(uri, ids="original", cache=tmp_path) as found:
        yield found


def test_the_edges_are_those_that_stay_by_their_ids_of_the_input(graph: PartitionedGraph) -> None:
    everyone = {"user": torch.arange(USERS), "item": torch.arange(ITEMS)}
    there = edges_of(graph.in_subgraph(everyone), is_block=False)
    for etype in (BUYS, KNOWS, SEEN):
        edges, ids = GRAPH.edges[":".join(etype)], kept(etype)
        assert there[etype] == sorted((edges.src[e], edges.dst[e], e) for e in ids)
        assert graph.num_edges(etype) == len(ids)
        src, dst = graph.find_edges(torch.tensor(ids), etype)
        assert src.tolist() == [edges.src[e] for e in ids] and dst.tolist() == [edges.dst[e] for e in ids]
    assert len(kept(BUYS)) < 300 and len(kept(KNOWS)) < 300  # or nothing was tested


@pytest.mark.parametrize("etype", [BUYS, KNOWS])
def test_what_was_dropped_is_named(graph: PartitionedGraph, etype: Any) -> None:
    gone = min(set(range(300)) - set(kept(etype)))
    with pytest.raises(InvalidIdError, match=rf"{gone} is not there: .*validation dropped it"):
        graph.find_edges(torch.tensor([gone]), etype)
    with pytest.raises(InvalidIdError, match=rf"{gone} is not there: .*validation dropped it"):
        graph.get_edge_storage("weight", etype).fetch(torch.tensor([gone]), "cpu")
    with pytest.raises(InvalidIdError, match=r"out of range.*300"):
        graph.find_edges(torch.tensor([300]), etype)


def test_features_are_those_of_the_ids(graph: PartitionedGraph) -> None:
    sampler = dgl.dataloading.NeighborSampler([3, 3], prefetch_edge_feats={BUYS: ["weight"]})
    loader = dgl.dataloading.DataLoader(graph, {"item": torch.arange(ITEMS)}, sampler, batch_size=8)
    weights = torch.from_numpy(GRAPH.edge_values[0].array)
    for _, _, blocks in loader:
        rows = blocks[-1].edges[BUYS].data
        assert len(rows[dgl.EID]) and same_bits(rows["weight"], weights[rows[dgl.EID]])


def test_probabilities_are_those_of_the_ids(graph: PartitionedGraph, uri: str, tmp_path: Path) -> None:
    """An edge of weight 0 is not drawn; its neighbours in the list of IDs are."""
    zeroed = SmallGraph(GRAPH.nodes, GRAPH.edges, edge_values=[*GRAPH.edge_values])
    weights = np.ones(300, np.float32)
    weights[kept(BUYS)[::2]] = 0
    zeroed.edge_values[0] = Values(":".join(BUYS), "weight", weights)
    output = partitioned(zeroed, tmp_path, on_defect=DROP)
    with PartitionedGraph(output, ids="original", cache=tmp_path / "cache") as found:
        drawn = found.sample_neighbors({"item": torch.arange(ITEMS)}, 300, prob="weight")
        assert sorted(drawn.edges[BUYS].data[dgl.EID].tolist()) == kept(BUYS)[1::2]


def test_pickers_of_edges_leave_the_holes_alone(graph: PartitionedGraph) -> None:
    """Edge prediction on the IDs that stay; what is excluded goes by its ID of the input."""
    seeds = {BUYS: torch.tensor(kept(BUYS)[:20])}
    inner = dgl.dataloading.NeighborSampler([-1])
    sampler = dgl.dataloading.as_edge_prediction_sampler(inner, exclude="self")
    _, pairs, blocks = sampler.sample(graph, seeds)
    assert pairs.edges[BUYS].data[dgl.EID].tolist() == kept(BUYS)[:20]
    left = set(blocks[0].edges[BUYS].data[dgl.EID].tolist())
    assert left and left <= set(kept(BUYS)[20:])
