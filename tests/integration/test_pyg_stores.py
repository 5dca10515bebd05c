"""PyG's data loaders over a finished output give what they give over the graph in memory."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader, LinkNeighborLoader, NeighborLoader, NodeLoader
from torch_geometric.sampler import NegativeSampling

from partition_ops.errors import UsageError
from partition_ops.storage import StorageSettings, open_store
from partition_ops.train.pyg_stores import (
    PartitionedFeatureStore,
    PartitionedGraphStore,
    PartitionedNeighborSampler,
    open_pyg_stores,
)
from tests.graphs import Edges, SmallGraph, Values, library, social
from tests.train_graphs import partitioned, same_bits

# PyG's own sampler needs one of them; .ci/run builds torch-sparse
needs_extension = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("pyg_lib", "torch_sparse"))),
    reason="needs pyg-lib or torch-sparse",
)
Stores = tuple[PartitionedFeatureStore, PartitionedGraphStore]
GRAPH = library(papers=80)
WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(GRAPH, tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module", params=["original", "new"])
def stores(
    request: pytest.FixtureRequest, uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stores]:
    found = open_pyg_stores(uri, ids=request.param, cache=tmp_path_factory.mktemp("cache"))
    yield found
    found[0].graph.close()


def names(value: Values) -> str:
    return {"feat": "x", "label": "y"}.get(value.name, value.name)


def in_memory(graph: SmallGraph, stores: Stores) -> HeteroData:
    """The input as PyG holds it, on the IDs of the stores."""
    data, book, is_new = HeteroData(), stores[0].graph.book, stores[0].graph.ids == "new"
    for name, count in graph.nodes.items():
        data[name].num_nodes = count
    for name, edges in graph.edges.items():
        src, dst = (np.array(ids, np.int64) for ids in (edges.src, edges.dst))
        if is_new:
            order = book.eid_new2orig(np.arange(len(src)), name)
            src = book.nid_orig2new(src[order], name.split(":")[0])
            dst = book.nid_orig2new(dst[order], name.split(":")[2])
        data[tuple(name.split(":"))].edge_index = torch.from_numpy(np.stack([src, dst]))
    for value in (*graph.node_values, *graph.edge_values):
        edge = value in graph.edge_values
        rows = np.ascontiguousarray(value.array.astype(value.array.dtype.newbyteorder("=")))
        if is_new:
            new2orig = book.eid_new2orig if edge else book.nid_new2orig
            rows = rows[new2orig(np.arange(len(rows)), value.type_name)]
        key = tuple(value.type_name.split(":")) if edge else value.type_name
        name = {"feat": "edge_attr"}.get(value.name, value.name) if edge else names(value)
        data[key][name] = torch.from_numpy(rows.view(np.uint8) if rows.dtype == np.bool_ else rows)
    return data


def edges_of(batch: HeteroData) -> dict[Any, Counter[tuple[int, ...]]]:
    """The edges of a batch: source, destination, edge ID."""
    found = {}
    for etype in batch.edge_types:
        row, col = batch[etype].edge_index
        ends = batch[etype[0]].n_id[row], batch[etype[2]].n_id[col], batch[etype].e_id
        found[etype] = Counter(zip(*(ids.tolist() for ids in ends), strict=True))
    return found


def assert_part_of(batch: HeteroData, data: HeteroData) -> None:
    """Every edge of a batch is an edge of the graph, and every feature the one of its node or edge."""
    for etype in batch.edge_types:
        store = batch[etype]
        ends = torch.stack(
            [batch[etype[0]].n_id[store.edge_index[0]], batch[etype[2]].n_id[store.edge_index[1]]]
        )
        assert torch.equal(ends, data[etype].edge_index[:, store.e_id])
        assert len(store.e_id.unique()) == len(store.e_id)
    for ntype in batch.node_types:
        assert len(batch[ntype].n_id.unique()) == len(batch[ntype].n_id) == batch[ntype].num_nodes
    for store, ids in [(batch[t], "n_id") for t in batch.node_types] + [
        (batch[e], "e_id") for e in batch.edge_types
    ]:
        of_graph = data[store._key]
        for name in of_graph.to_dict():
            if name not in ("num_nodes", "edge_index", "node_attrs"):
                expected = of_graph[name][store[ids]]
                assert store[name].dtype == expected.dtype
                assert store[name].numpy().tobytes() == expected.numpy().tobytes(), (store._key, name)


def in_edges(data: HeteroData, ntype: str, nodes: list[int]) -> dict[Any, Counter[tuple[int, ...]]]:
    found = {}
    for etype in data.edge_types:
        src, dst = data[etype].edge_index
        here = (
            torch.isin(dst, torch.tensor(nodes))
            if etype[2] == ntype
            else torch.zeros_like(dst, dtype=torch.bool)
        )
        ids = here.nonzero()[:, 0]
        found[etype] = Counter(zip(src[ids].tolist(), dst[ids].tolist(), ids.tolist(), strict=True))
    return found


def node_loader(stores: Stores, fanout: Any, **options: Any) -> Any:
    sampler = PartitionedNeighborSampler(stores[1], fanout, replace=options.pop("replace", False))
    return NodeLoader(stores, sampler, transform=stores[0].join_edge_features, **options)


def neighbor_loader(stores: Stores, fanout: Any, **options: Any) -> Any:
    return NeighborLoader(stores, fanout, transform=stores[0].join_edge_features, **options)


LOADERS = [node_loader, pytest.param(neighbor_loader, marks=needs_extension)]


@pytest.mark.parametrize("loader", LOADERS)
def test_batches_are_parts_of_the_graph(loader: Any, stores: Stores) -> None:
    data, seen = in_memory(GRAPH, stores), []
    for batch in loader(stores, [3, 2], input_nodes="paper", batch_size=16, shuffle=True):
        assert_part_of(batch, data)
        assert batch["paper"].input_id.tolist() == batch["paper"].n_id[: batch["paper"].batch_size].tolist()
        seen += batch["paper"].input_id.tolist()
        assert batch["paper"].x.shape[0] == batch["paper"].num_nodes
    assert sorted(seen) == list(range(80))


@pytest.mark.parametrize("loader", LOADERS)
def test_all_neighbours_are_the_in_edges(loader: Any, stores: Stores) -> None:
    data = in_memory(GRAPH, stores)
    for batch in loader(stores, [-1], input_nodes="paper", batch_size=32):
        found = edges_of(batch)
        for etype, expected in in_edges(data, "paper", batch["paper"].input_id.tolist()).items():
            assert found.get(etype, Counter()) == expected


def test_hops_follow_each_other(stores: Stores) -> None:
    """Two hops of all neighbours are the in-edges of what one hop reaches; the counts by hop agree."""
    data, seeds = in_memory(GRAPH, stores), torch.tensor([5, 60, 7])
    options = {"input_nodes": ("paper", seeds), "batch_size": 3}
    (one,), (two,) = (list(node_loader(stores, [-1] * hops, **options)) for hops in (1, 2))
    expected: dict[Any, Counter[tuple[int, ...]]] = {etype: Counter() for etype in data.edge_types}
    for ntype in data.node_types:
        for etype, edges in in_edges(data, ntype, one[ntype].n_id.tolist()).items():
            expected[etype] += edges
    assert {etype: edges for etype, edges in edges_of(two).items() if edges} == {
        etype: edges for etype, edges in expected.items() if edges
    }
    for ntype in data.node_types:
        counts = two[ntype].num_sampled_nodes
        assert sum(counts) == two[ntype].num_nodes and len(counts) == 3
        assert two[ntype].n_id[: sum(counts[:2])].tolist() == one[ntype].n_id.tolist()
    for etype in data.edge_types:
        first = two[etype].num_sampled_edges[0]
        assert sorted(two[etype].e_id[:first].tolist()) == sorted(one[etype].e_id.tolist())


def test_draws_are_uniform_and_reproducible(tmp_path: Path) -> None:
    graph = SmallGraph({"leaf": 10, "hub": 1}, {"leaf:r:hub": Edges([*range(10)], [0] * 10)})
    stores = open_pyg_stores(partitioned(graph, tmp_path), cache=tmp_path / "cache")
    drawn: Counter[int] = Counter()
    seeds = torch.zeros(2000, dtype=torch.int64)
    loader = node_loader(stores, [4], input_nodes=("hub", seeds), batch_size=1)
    torch.manual_seed(0)
    for batch in loader:
        ids = batch["leaf", "r", "hub"].e_id.tolist()
        assert len(set(ids)) == 4
        drawn.update(ids)
    assert all(abs(count - 800) < 100 for count in drawn.values())  # 4.5 standard deviations
    torch.manual_seed(0)
    assert sum((Counter(batch["leaf", "r", "hub"].e_id.tolist()) for batch in loader), Counter()) == drawn
    (batch,) = node_loader(stores, [40], input_nodes=("hub", seeds[:1]), batch_size=1, replace=True)
    assert batch["leaf", "r", "hub"].edge_index.shape == (2, 40)
    assert batch["leaf"].num_nodes == len(set(batch["leaf", "r", "hub"].e_id.tolist()))


def test_a_fanout_by_edge_type(stores: Stores) -> None:
    etypes = stores[0].graph.canonical_etypes
    fanout = {etype: [-1 if etype == WRITES else 0] for etype in etypes}
    (batch,) = node_loader(stores, fanout, input_nodes="paper", batch_size=80)
    assert {etype: len(batch[etype].e_id) for etype in etypes} == {
        etype: len(GRAPH.edges[":".join(etype)].src) if etype == WRITES else 0 for etype in etypes
    }
    with pytest.raises(UsageError, match="same number of hops"):
        PartitionedNeighborSampler(stores[1], {WRITES: [1, 2]})


def link_loader(stores: Stores, fanout: Any, **options: Any) -> Any:
    return LinkLoader(stores, PartitionedNeighborSampler(stores[1], fanout), **options)


def link_neighbor_loader(stores: Stores, fanout: Any, **options: Any) -> Any:
    return LinkNeighborLoader(stores, fanout, **options)


@pytest.mark.parametrize("loader", [link_loader, pytest.param(link_neighbor_loader, marks=needs_extension)])
def test_links_with_negative_ones(loader: Any, stores: Stores) -> None:
    data = in_memory(GRAPH, stores)
    edges, seen = data[WRITES].edge_index, []
    options = {"edge_label_index": (WRITES, edges), "neg_sampling": NegativeSampling("binary", 1.0)}
    for batch in loader(stores, [2, 2], batch_size=32, **options):
        store = batch[WRITES]
        ends = torch.stack(
            [batch["author"].n_id[store.edge_label_index[0]], batch["paper"].n_id[store.edge_label_index[1]]]
        )
        positive = store.edge_label == 1
        assert torch.equal(ends[:, positive], edges[:, store.input_id])
        assert int(positive.sum()) == int((~positive).sum())
        seen += store.input_id.tolist()
    assert sorted(seen) == list(range(edges.shape[1]))


def test_a_homogeneous_graph(tmp_path: Path) -> None:
    graph = social(people=90)
    assert len(graph.nodes) == len(graph.edges) == 1
    stores = open_pyg_stores(partitioned(graph, tmp_path), cache=tmp_path / "cache")
    ((_, edges),), data = graph.edges.items(), Data(num_nodes=90)
    data.edge_index = torch.tensor([edges.src, edges.dst])
    for batch in node_loader(stores, [3, 3], input_nodes=torch.arange(90), batch_size=32):
        assert isinstance(batch, Data)
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        for value in graph.node_values:
            expected = torch.from_numpy(value.array[batch.n_id.numpy()])
            assert torch.equal(batch[names(value)].to(expected.dtype), expected)
        assert all(feature in batch for feature in stores[0].edge_features())


def test_from_s3_and_in_worker_processes(
    uri: str, s3_root: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    with open_store(s3_root, s3_settings) as output, open_store(uri) as local:
        for entry in local.list():
            output.write_bytes(entry.key, local.read_bytes(entry.key))
        stores = open_pyg_stores(output, cache=tmp_path / "cache")
        data = in_memory(GRAPH, stores)
        for batch in node_loader(stores, [3, 2], input_nodes="paper", batch_size=30, num_workers=2):
            assert_part_of(batch, data)
        stores[0].graph.close()


def test_features_by_index(stores: Stores) -> None:
    features, data = stores[0], in_memory(GRAPH, stores)
    x = data["paper"].x
    for index in (torch.tensor([7, 3, 3]), slice(5, 20, 3), torch.arange(80) % 7 == 0, None):
        expected = x if index is None else x[index]
        assert same_bits(features.get_tensor("paper", "x", index), expected)
    assert features.get_tensor_size("paper", "x") == tuple(x.shape)
    assert features.get_tensor("paper", "no such", None) is None
    with pytest.raises(UsageError, match="read-only"):
        features.put_tensor(x, "paper", "x", None)
    for etype in data.edge_types:
        for name in features.edge_features(etype):
            ids = torch.arange(min(3, features.graph.num_edges(etype)))
            assert same_bits(features.get_tensor(etype, name, ids), data[etype][name][ids])


def test_the_graph_in_every_layout(stores: Stores) -> None:
    data = in_memory(GRAPH, stores)
    row, col, ids = stores[1].coo()
    for etype in data.edge_types:
        assert torch.equal(torch.stack([row[etype], col[etype]]), data[etype].edge_index[:, ids[etype]])
    pointers, _, _ = stores[1].csr()
    for etype in data.edge_types:
        degrees = torch.bincount(data[etype].edge_index[0], minlength=GRAPH.nodes[etype[0]])
        assert torch.equal(pointers[etype].diff(), degrees)
