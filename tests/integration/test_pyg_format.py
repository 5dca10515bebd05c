"""The output format ``pyg`` is what PyG's partitioner writes for the same assignment, and PyG loads it."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.distributed import LocalFeatureStore, LocalGraphStore, Partitioner
from torch_geometric.loader import ClusterData

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.storage import open_store
from partition_ops.verification.verify import verify_output
from tests.graphs import SHAPES, Edges, SmallGraph, Values, library
from tests.train_graphs import partitioned

PARTS = 3
FOLDER = "formats/pyg"


def drawn(types: list[str], edge_types: list[str], edges: int = 250) -> SmallGraph:
    """A graph whose features PyG's partitioner can write: the same for all types."""
    rng = np.random.default_rng(1)
    nodes = {name: 60 + 7 * index for index, name in enumerate(types)}
    ends = {name: [nodes[end] for end in name.split(":")[::2]] for name in edge_types}
    return SmallGraph(
        nodes,
        {e: Edges(*(rng.integers(0, n, edges).tolist() for n in ends[e])) for e in edge_types},
        [Values(name, "feat", rng.random((count, 4), np.float32)) for name, count in nodes.items()],
        [Values(name, "edge_attr", rng.random((edges, 3), np.float32)) for name in edge_types],
    )


GRAPHS = {
    "heterogeneous": drawn(["a", "b"], ["a:r:b", "b:s:a", "a:t:a"]),
    "homogeneous": drawn(["_N"], ["_N:_E:_N"]),
}


def in_pyg(graph: SmallGraph) -> Any:
    """The graph as PyG holds it."""
    homogeneous = len(graph.nodes) == len(graph.edges) == 1
    data = Data() if homogeneous else HeteroData()
    for name, count in graph.nodes.items():
        (data if homogeneous else data[name]).num_nodes = count
    for name, edges in graph.edges.items():
        store = data if homogeneous else data[tuple(name.split(":"))]
        store.edge_index = torch.tensor([edges.src, edges.dst])
    for value in graph.node_values:
        (data if homogeneous else data[value.type_name]).x = torch.from_numpy(value.array)
    for value in graph.edge_values:
        store = data if homogeneous else data[tuple(value.type_name.split(":"))]
        store.edge_attr = torch.from_numpy(value.array)
    return data


def write_by_pyg(graph: SmallGraph, output: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let PyG's partitioner write the graph with the assignment of an output.

    It sorts with ``torch.sort``, which leaves the order of equal nodes and edges open; here they keep theirs.
    """
    parts = torch.cat([torch.from_numpy(np.load(output / f"assignment/{name}.npy")) for name in graph.nodes])
    patch.setattr(ClusterData, "_metis", lambda *_: parts.long())
    for module in ("loader.cluster", "sampler.utils", "utils._sort_edge_index"):
        patch.setattr(
            importlib.import_module(f"torch_geometric.{module}"),
            "index_sort",
            lambda inputs, max_value=None, stable=False: inputs.sort(stable=True),
        )
    Partitioner(in_pyg(graph), PARTS, str(folder)).generate_partition()


def assert_same(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}/{key}")
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype and torch.equal(found, expected), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", GRAPHS)
def test_every_file_is_that_of_pyg(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS[name]
    output = Path(partitioned(graph, tmp_path, formats=("dgl", "pyg")))
    ours, theirs = output / FOLDER, tmp_path / "theirs"
    write_by_pyg(graph, output, theirs, monkeypatch)
    files = [path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file()]
    assert len(files) == 1 + len(graph.nodes) + len(graph.edges) + 3 * PARTS
    for file in files:
        if file.suffix == ".json":
            assert json.loads((ours / file).read_text()) == json.loads((theirs / file).read_text())
        else:
            expected = torch.load(theirs / file, weights_only=False)
            assert_same(torch.load(ours / file, weights_only=True), expected, str(file))
    written = {path.relative_to(ours) for path in ours.rglob("*") if path.is_file()}
    assert {str(path) for path in written.difference(files)} == {"features.json"}


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallGraph, Path, Path]:
    """Features of many dtypes and names, labels, and dropped edges."""
    graph, folder = library(), tmp_path_factory.mktemp("library")
    config = {"on_defect": "drop", "num_trainers_per_machine": 2, "num_hops": 2, "out_edges": True}
    return graph, folder / "input", Path(partitioned(graph, folder, formats=("dgl", "pyg"), **config))


def test_pyg_loads_every_partition(dropping: tuple[SmallGraph, Path, Path]) -> None:
    graph, _, output = dropping
    root, names = str(output / FOLDER), json.loads((output / FOLDER / "features.json").read_text())
    seen: dict[tuple[str, ...], list[int]] = {tuple(name.split(":")): [] for name in graph.edges}
    offsets = dict(zip(graph.nodes, np.cumsum([0, *graph.nodes.values()]).tolist(), strict=False))
    firsts = np.cumsum([0, *(len(edges.src) for edges in graph.edges.values())]).tolist()
    edge_offsets = {tuple(name.split(":")): first for name, first in zip(graph.edges, firsts, strict=False)}
    for part in range(PARTS):
        store, features = (of.from_partition(root, part) for of in (LocalGraphStore, LocalFeatureStore))
        for attr in store.get_all_edge_attrs():
            edges = graph.edges[":".join(attr.edge_type)]
            row, col = store.get_edge_index(attr)
            ids = store.get_edge_id(attr) - edge_offsets[attr.edge_type]
            assert torch.equal(row, torch.tensor(edges.src)[ids])
            assert torch.equal(col, torch.tensor(edges.dst)[ids])
            assert (store.get_partition_ids_from_nids(col, attr.edge_type[2]) == part).all()
            assert (store.get_partition_ids_from_eids(ids, attr.edge_type) == part).all()
            seen[attr.edge_type] += ids.tolist()
        for value in graph.node_values:
            theirs = {one["name"]: name for name, one in names["nodes"][value.type_name].items()}[value.name]
            ids = features.get_global_id(value.type_name)
            found = features.get_tensor_from_global_id(value.type_name, theirs, ids)
            expected = value.array[(ids - offsets[value.type_name]).numpy()]
            np.testing.assert_array_equal(found.numpy(), expected)
            assert found.numpy().dtype == expected.dtype.newbyteorder("=")
    for name, edges in graph.edges.items():
        dropped = output / layout.edge_list(layout.DROPPED, name)
        left = {*range(len(edges.src))} - {*(np.load(dropped).tolist() if dropped.exists() else [])}
        assert sorted(seen[tuple(name.split(":"))]) == sorted(left)


def test_verify_finds_nothing_wrong(dropping: tuple[SmallGraph, Path, Path]) -> None:
    _, source, output = dropping
    report = verify_output(open_store(str(source)), open_store(str(output)))
    assert report.passed, report.summary()


AWKWARD = (
    "a type without nodes first",
    "an edge type without edges",
    "fewer nodes of a type than partitions",
    "self-loops that are there twice",
    "odd names",
    "only homogeneous",
)


@pytest.mark.parametrize("name", AWKWARD)
def test_graphs_of_awkward_shape(name: str, tmp_path: Path) -> None:
    graph = SHAPES[name]
    output = partitioned(graph, tmp_path, formats=("dgl", "pyg"), num_parts=graph.parts(PARTS))
    report = verify_output(open_store(str(tmp_path / "input")), open_store(output))
    assert report.passed, report.summary()
    for part in range(graph.parts(PARTS)):
        LocalGraphStore.from_partition(f"{output}/{FOLDER}", part)
        LocalFeatureStore.from_partition(f"{output}/{FOLDER}", part)


def damage_meta(folder: Path) -> None:
    document = json.loads((folder / "META.json").read_text())
    (folder / "META.json").write_text(json.dumps({**document, "num_parts": 2}))


def damage(file: str, *path: Any, swap: bool = False) -> Any:
    """Add 1 to a value of a tensor, or swap the first two."""

    def change(folder: Path) -> None:
        content = torch.load(folder / file, weights_only=True)
        tensor = content
        for key in path:
            tensor = tensor[key]
        if swap:
            tensor[[0, 1]] = tensor[[1, 0]]
        else:
            tensor[0] += 1
        torch.save(content, folder / file)

    return change


def swap_edges(folder: Path) -> None:
    """Put the last edge of a type first, with its features: only the order is wrong."""
    graph = torch.load(folder / "part_1/graph.pt", weights_only=True)
    edges = graph["a", "r", "b"]
    order = torch.arange(len(edges["row"])).roll(1)
    for key in ("row", "col", "edge_id"):
        edges[key] = edges[key][order]
    torch.save(graph, folder / "part_1/graph.pt")
    features = torch.load(folder / "part_1/edge_feats.pt", weights_only=True)
    entry = features["a", "r", "b"]
    entry["global_id"], entry["feats"]["edge_attr"] = (
        entry["global_id"][order],
        entry["feats"]["edge_attr"][order],
    )
    torch.save(features, folder / "part_1/edge_feats.pt")


EDGE = ("a", "r", "b")
DAMAGES = {
    "meta": (damage_meta, {"configuration"}),
    "source": (damage("part_1/graph.pt", EDGE, "row"), {"edge-ends"}),
    "destination": (damage("part_1/graph.pt", EDGE, "col"), {"edge-ends"}),
    "edge ID": (
        damage("part_1/graph.pt", EDGE, "edge_id"),
        {"edge-features", "every-edge-once", "original-ids"},
    ),
    "order": (swap_edges, {"pyg-order"}),
    "owner of a node": (damage("node_map/a.pt"), {"fields"}),
    "owner of two edges": (damage("edge_map/a__r__b.pt"), {"fields"}),
    "node ID": (damage("part_1/node_feats.pt", "a", "global_id"), {"original-ids"}),
    "node feature": (damage("part_1/node_feats.pt", "a", "feats", "x"), {"node-features"}),
    "edge feature": (
        damage("part_1/edge_feats.pt", EDGE, "feats", "edge_attr", swap=True),
        {"edge-features"},
    ),
    "labels": (damage("labels/a.pt"), {"pyg-maps"}),
    "label": (damage("part_1/node_feats.pt", "a", "feats", "y"), {"node-features", "pyg-maps"}),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph, folder = drawn(["a", "b"], ["a:r:b", "b:s:a", "a:t:a"]), tmp_path_factory.mktemp("sound")
    graph.node_values.append(Values("a", "label", np.arange(graph.nodes["a"])))
    partitioned(graph, folder, formats=("dgl", "pyg"))
    return folder


@pytest.mark.parametrize("name", DAMAGES)
def test_verify_finds_damage(name: str, sound: Path, tmp_path: Path) -> None:
    change, expected = DAMAGES[name]
    shutil.copytree(sound / "output", tmp_path / "output")
    change(tmp_path / "output" / FOLDER)
    report = verify_output(open_store(str(sound / "input")), open_store(str(tmp_path / "output")))
    assert expected <= {check.name for check in report.failed} - {"manifest-artifacts"}, report.summary()


def test_fetch_brings_the_files_of_all_partitions(sound: Path, tmp_path: Path) -> None:
    output = open_store(str(sound / "output"))
    for _ in range(2):
        result = fetch_partitions(output, [1], tmp_path, formats=["pyg"])
        assert result["partition_config"] == str(tmp_path / FOLDER / "META.json")
    root = str(tmp_path / FOLDER)
    assert not (tmp_path / FOLDER / "part_0").exists()
    assert LocalGraphStore.from_partition(root, 1).num_partitions == PARTS
    assert LocalFeatureStore.from_partition(root, 1).get_tensor("a", "y").dtype == torch.int64
    assert torch.load(f"{root}/labels/a.pt", weights_only=True).tolist() == [*range(60)]
    assert not [*tmp_path.rglob(".partial-*")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--formats", "pyg"], "--formats dgl,pyg"),
        (["--formats", "dgl,pyg", "--num-hops", "0"], "--num-hops 1 or more"),
    ],
)
def test_what_cannot_be_written_is_rejected_before_any_work(
    words: list[str], message: str, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(sound / "input"), str(tmp_path / "out"), "--num-parts", "2", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
