"""The output formats graphbolt and graphbolt-dataset. DGL 2.1 itself reads them in tests/compat."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops.errors import UsageError
from partition_ops.formats.columns import Column
from partition_ops.formats.graphbolt.checks import read_state
from partition_ops.formats.graphbolt.graphbolt_format import GRAPH, write_sampling_graph
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.storage import Store, open_store
from partition_ops.train import PartitionedGraph
from partition_ops.verification import verify_output
from tests.graphs import Edges, Values, library, social
from tests.train_graphs import partitioned

TENSORS = ("node_feat.dgl", "edge_feat.dgl", "orig_nids.dgl", "orig_eids.dgl")
KEY = f"formats/graphbolt/part1/{GRAPH}"
DATASET = f"formats/graphbolt-dataset/preprocessed/{GRAPH}"
ALL: dict[str, Any] = {"graphbolt_attributes": ("inner_edge", "eids", "inner_node")}
NONE: dict[str, Any] = {"graphbolt_attributes": ("none",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    partitioned(library(papers=80), folder, formats=("dgl", "graphbolt"), **ALL)
    return folder


def failures(folder: Path) -> dict[str, str]:
    report = verify_output(open_store(str(folder / "input")), open_store(str(folder / "output")))
    return {check.name: check.detail for check in report.checks if not check.passed}


def test_formats_share_their_files(folder: Path) -> None:
    assert failures(folder) == {}
    for part in range(3):
        for name in TENSORS:
            ours, dgls = (
                folder / f"output/{place}/part{part}" / name for place in ("formats/graphbolt", "partitions")
            )
            assert ours.samefile(dgls)


@pytest.mark.parametrize(
    "options", [NONE, {"num_hops": 0}, {"num_hops": 2, **NONE}, {"out_edges": True}], ids=str
)
def test_options_are_verified(options: dict[str, Any], tmp_path: Path) -> None:
    graph = library() if {"num_hops", "out_edges"} & options.keys() else social(people=60)
    partitioned(graph, tmp_path, formats=("graphbolt",), **options)
    assert failures(tmp_path) == {}
    state = read_state(open_store(str(tmp_path / "output")), KEY)
    assert [*state["edge_attributes"]] == ([] if "graphbolt_attributes" in options else ["_ID"])


def test_alone_it_has_id_maps_but_no_training_here(tmp_path: Path, folder: Path) -> None:
    partitioned(library(papers=80), tmp_path, formats=("graphbolt",))
    for path in (folder / "output/idmap").rglob("*.parquet"):
        assert (
            tmp_path / "output/idmap" / path.relative_to(folder / "output/idmap")
        ).read_bytes() == path.read_bytes()
    with pytest.raises(UsageError, match="no format of the output has their graph"):
        PartitionedGraph(str(tmp_path / "output"))
    fetched = fetch_partitions(
        open_store(str(tmp_path / "output")), [2], tmp_path / "to", formats=["graphbolt"]
    )
    assert fetched["partition_config"] == str(tmp_path / "to/formats/graphbolt/small.json")
    assert {path.name for path in (tmp_path / "to/formats/graphbolt/part2").iterdir()} == {GRAPH, *TENSORS}


def test_graphbolt_first_reads_the_graph_from_dgl(tmp_path: Path) -> None:
    uri = partitioned(library(), tmp_path, formats=("graphbolt", "dgl"))
    with PartitionedGraph(uri) as graph:
        assert graph.num_nodes() > 0


def swap(name: str) -> Callable[[Any], None]:
    """Exchange the first two edges of a destination that differ in a tensor."""

    def change(state: Any) -> None:
        tensors = state["independent_tensors"]
        tensor = state["edge_attributes"][name] if name.startswith("_") else tensors[name]
        indptr = tensors["indptr"].tolist()
        for begin, end in pairwise(indptr):
            for at in range(begin, end - 1):
                if tensor[at] != tensor[at + 1]:
                    tensor[at], tensor[at + 1] = int(tensor[at + 1]), int(tensor[at])
                    return
        raise AssertionError("no such edges")

    return change


def narrow(state: Any) -> None:
    state["node_attributes"]["_ID"] = state["node_attributes"]["_ID"].astype(np.int32)


def rename(state: Any) -> None:
    state["edge_type_to_id"] = {name.upper(): value for name, value in state["edge_type_to_id"].items()}


def flag(state: Any) -> None:
    state["node_attributes"]["inner_node"][0] = 0


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (swap("indices"), "edge-ends"),
        (swap("_ID"), "edge-ends"),
        (swap("type_per_edge"), "graphbolt-graph"),
        (narrow, "graphbolt-graph"),
        (rename, "graphbolt-graph"),
        (flag, "inner-nodes"),
    ],
)
def test_damage_is_found(folder: Path, change: Callable[[Any], None], check: str) -> None:
    path = folder / "output" / KEY
    before = path.read_bytes()
    state = arrays_of(open_store(str(folder / "output")), KEY)
    change(state)
    del state["independent_tensors"]["version_number"]
    try:
        with path.open("wb") as stream:
            write_sampling_graph(
                stream, {g: {n: column(t) for n, t in named.items()} for g, named in state.items()}
            )
        assert check in failures(folder)
    finally:
        path.write_bytes(before)


def arrays_of(output: Store, key: str) -> dict[str, dict[str, Any]]:
    """Return the tensors of a graph as arrays that can be changed."""
    return {
        group: {name: np.array(tensor) for name, tensor in tensors.items()}
        for group, tensors in read_state(output, key).items()
    }


def column(array: np.ndarray[Any, Any]) -> Column:
    return Column.of(array) if array.ndim else Column(array.dtype, (), lambda: iter([array]))


def test_files_with_other_classes_are_refused(folder: Path) -> None:
    """Nothing in them is run."""
    path = folder / "output" / KEY
    before = path.read_bytes()
    try:
        torch.save(Path("x"), path)
        found = failures(folder)
        assert f"{path.name} is damaged" in found["fields"]
        path.write_bytes(before[: len(before) // 2])
        found = failures(folder)
        assert f"{path.name} is damaged" in found["fields"]
        assert found["graphbolt-graph"] == "see the check 'fields'"
    finally:
        path.write_bytes(before)


def test_attributes_are_checked() -> None:
    with pytest.raises(UsageError, match="cannot have none together"):
        ConvertConfig(graphbolt_attributes=("none", "eids"))
    config = ConvertConfig(graphbolt_attributes=("inner_edge", "eids"))
    assert config.graphbolt_attributes == ("eids", "inner_edge")
    assert (
        "graphbolt_attributes" not in config.options()
    )  # without the format, it is no reason to convert again


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with the format graphbolt-dataset, of a graph with masks and dropped edges."""
    folder = tmp_path_factory.mktemp("dataset")
    graph = library()
    edges = graph.edges["paper:cites:paper"]
    twice = Edges([*edges.src, edges.src[0]], [*edges.dst, edges.dst[0]])
    rng = np.random.default_rng(0)
    values = [
        Values("paper:cites:paper", "val_mask", rng.random(len(twice.src)) < 0.5),
        Values("paper:cites:paper", "w", rng.integers(0, 9, len(twice.src)).astype(np.uint16)),
    ]
    graph = replace(graph, edges={**graph.edges, "paper:cites:paper": twice}, edge_values=values)
    partitioned(graph, folder, formats=("dgl", "graphbolt-dataset"), on_defect="drop")
    return folder


def test_a_data_set_is_verified_and_fetched(dataset: Path, tmp_path: Path) -> None:
    assert failures(dataset) == {}
    state = read_state(open_store(str(dataset / "output")), DATASET)
    counts = json.loads((dataset / "output/convert/book.json").read_text())["edges"]
    assert len(state["independent_tensors"]["indices"]) == sum(map(sum, counts.values()))
    assert sum(map(sum, counts.values())) < sum(len(e.src) for e in library().edges.values()) + 1
    fetch_partitions(open_store(str(dataset / "output")), [0], tmp_path, formats=["graphbolt-dataset"])
    copied = tmp_path / "formats/graphbolt-dataset/preprocessed"
    names = {"metadata.yaml", "dataset_hash_value.txt", GRAPH, "node_features", "edge_features", "sets"}
    assert {path.name for path in copied.iterdir()} == names


def test_a_data_set_needs_partitions_beside_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ID maps cannot be made"):
        partitioned(library(), tmp_path, formats=("graphbolt-dataset",))


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("sets/node_features/paper/train_mask-ids.npy", "graphbolt-dataset"),
        ("sets/node_features/paper/train_mask-labels.npy", "graphbolt-dataset"),
        ("sets/edge_features/paper:cites:paper/val_mask-ids.npy", "graphbolt-dataset"),
        ("node_features/author/grid.npy", "node-features"),
        ("edge_features/paper:cites:paper/w.npy", "edge-features"),
    ],
)
def test_damage_of_a_data_set_is_found(dataset: Path, name: str, check: str) -> None:
    path = dataset / "output/formats/graphbolt-dataset/preprocessed" / name
    before = path.read_bytes()
    try:
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert check in failures(dataset)
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("tensor", "check"),
    [("indices", "edge-ends"), ("_ORIGINAL_EDGE_ID", "edge-ends"), ("type_per_edge", "graphbolt-dataset")],
)
def test_damage_of_the_graph_of_a_data_set_is_found(dataset: Path, tensor: str, check: str) -> None:
    path, output = dataset / "output" / DATASET, open_store(str(dataset / "output"))
    before = path.read_bytes()
    state = arrays_of(output, DATASET)
    swap(tensor)(state)
    del state["independent_tensors"]["version_number"]
    try:
        with path.open("wb") as stream:
            write_sampling_graph(stream, {g: {n: column(t) for n, t in d.items()} for g, d in state.items()})
        assert check in failures(dataset)
    finally:
        path.write_bytes(before)
