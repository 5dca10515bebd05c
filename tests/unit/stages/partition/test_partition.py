"""Engines and assignments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.artifacts.parhip import MOST_NARROW_NODES, ParhipGraph
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.options.declare import StageConfig
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.engines import engine_names, engine_summaries
from partition_ops.stages.partition.multilevel.graph import constraints_of
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import check_options, partition_nodes
from partition_ops.stages.partition.problem import Problem, feature_classes
from partition_ops.stages.partition.write_assignment import import_assignment
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import Store, open_store
from tests.graphs import Edges, SmallGraph, Values, library
from tests.parmetis import parmetis_output
from tests.unit.jobs.test_estimate import graph_of


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    source = open_store(str(library(papers=2000).write(tmp_path / "graph")))
    destination = open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(), source, destination)
    return source, destination


def assigned(stores: tuple[Store, Store], config: PartitionConfig) -> np.ndarray:
    source, destination = stores
    partition_nodes(config, source, destination)
    return read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source)).parts


def imbalances(weights: np.ndarray, parts: np.ndarray, num_parts: int) -> np.ndarray:
    per_part = np.stack([weights[parts == part].sum(axis=0) for part in range(num_parts)])
    return per_part.max(axis=0) * num_parts / per_part.sum(axis=0)


def test_more_partitions_than_nodes_are_refused(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 2, "b": 1}, {"a:to:a": Edges([0], [1])})
    stores = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    with pytest.raises(UsageError, match=r"8 partitions, 3 nodes.*smaller --num-parts"):
        partition_nodes(PartitionConfig(num_parts=8, engine="random"), *stores)
    assert np.bincount(assigned(stores, PartitionConfig(num_parts=3, engine="random"))).tolist() == [1, 1, 1]


@pytest.mark.parametrize("engine", engine_names())
def test_more_nodes_than_an_engine_can_number_are_refused(tmp_path: Path, engine: str) -> None:
    most, config = find_engine(engine).most_nodes, PartitionConfig(num_parts=8, engine=engine)
    for nodes in (1 << 31, (1 << 31) + 1):
        source = graph_of(tmp_path / str(nodes), nodes, nodes)
        try:
            check_options(config, load_metadata(source), source)
            assert most is None or nodes <= most
        except UsageError as error:
            if most is not None:
                assert nodes > most and "Found: 2,147,483,649 nodes. Expected: at most 2,147" in str(error)
            else:
                assert engine == "parmetis" and "32 bits" not in str(error)  # which is not installed


def test_numbers_of_nodes_that_files_contradict_are_no_matter_of_the_engine(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 3}, {"a:r:a": Edges([0, 1], [1, 2])}, [Values("a", "x", np.zeros((3, 2)))])
    folder = graph.write(tmp_path / "graph")
    document = json.loads((folder / "metadata.json").read_text())
    document["num_nodes_per_chunk"] = [[10**12]]
    feature = document["node_data"]["a"]["x"]["data"][0]
    source, config = open_store(str(folder)), PartitionConfig(num_parts=2)
    (folder / "metadata.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match=rf"{feature}.*differs from metadata.json. Found: 3 rows"):
        check_options(config, load_metadata(source), source)
    (folder / "metadata.json").write_text(json.dumps({**document, "node_data": {}}))
    with pytest.raises(InvalidInputError, match=r"metadata.json: most .*1,000,000,000,000 nodes and 2 edges"):
        check_options(config, load_metadata(source), source)


def test_neighbours_that_32_bits_cannot_number_are_not_narrowed() -> None:
    offsets = np.broadcast_to(np.int64(0), (MOST_NARROW_NODES + 2,))
    with pytest.raises(UsageError, match=r"Found: 2,147,483,649\. Expected: at most 2,147,483,648"):
        _ = ParhipGraph(offsets, np.zeros(0, np.int64)).narrow_neighbours
    assert not len(ParhipGraph(offsets[1:], np.zeros(0, np.int64)).narrow_neighbours)


def test_a_type_with_fewer_nodes_than_partitions_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = SmallGraph({"a": 12, "few": 2, "none": 0}, {"a:to:few": Edges([0, 1], [1, 0])})
    stores = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    assigned(stores, PartitionConfig(num_parts=4, engine="random"))
    assert caplog.text.count("no nodes of 'few' (2 nodes, in 2 partitions)\n") == 1
    assert "partitions have no nodes: " not in caplog.text


def test_a_value_with_fewer_nodes_than_partitions_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mask = Values("a", "mask", np.arange(12) < 2)
    source = open_store(str(SmallGraph({"a": 12}, {"a:r:a": Edges([0], [1])}, [mask]).write(tmp_path)))
    metadata = load_metadata(source)
    for num_parts, noted in ((2, False), (4, True)):
        caplog.clear()
        feature_classes(PartitionConfig(num_parts=num_parts), metadata, source, ("mask",))
        said = "1 of the 2 classes by the feature 'mask' have fewer nodes than there are partitions"
        assert (said in caplog.text) == noted


@pytest.mark.parametrize(
    "values",
    [
        np.arange(9) % 2 == 0,
        (np.arange(9) * 31).astype(np.uint8),
        (np.arange(9) * 31 - 128).astype(np.int8),
        np.arange(2**63 - 4, 2**63 + 5, dtype=np.uint64),
        np.arange(9, dtype=np.int64) * 10**17,
        np.arange(9, dtype=np.int32) % 3 * 10**8,
    ],
    ids=lambda values: f"{values.dtype} {values[1]}",
)
@pytest.mark.parametrize("block", [2, 100])
def test_classes_are_the_combinations_of_types_and_values(
    values: np.ndarray, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type without the feature counts as having 0; classes are in the order of type, then of the values."""
    monkeypatch.setattr("partition_ops.stages.partition.problem.BLOCK", block)
    second = np.arange(9, dtype=np.int16) % 4
    features = [Values("a", "one", values), Values("a", "two", second), Values("none", "one", values[:0])]
    graph = SmallGraph({"a": 9, "b": 3, "none": 0}, {"a:r:b": Edges([0], [1])}, features)
    source = open_store(str(graph.write(tmp_path)))
    found = feature_classes(PartitionConfig(num_parts=2), load_metadata(source), source, ("one", "two"))
    signed = values.astype(np.int64).tolist()
    combinations = [*zip([0] * 9, signed, second.tolist(), strict=True), *[(1, 0, 0)] * 3]
    assert found.tolist() == [sorted(set(combinations)).index(one) for one in combinations]


def test_values_that_are_no_classes_are_rejected(tmp_path: Path) -> None:
    features = [Values("a", "one", np.arange(99)), Values("a", "two", np.arange(99) % 9)]
    source = open_store(str(SmallGraph({"a": 99}, {"a:r:a": Edges([0], [1])}, features).write(tmp_path)))
    for names, said in ((["one"], "The feature 'one' has too"), (["two", "one"], "'two' and 'one' have too")):
        with pytest.raises(UsageError, match=said) as caught:
            feature_classes(PartitionConfig(num_parts=2), load_metadata(source), source, tuple(names))
        assert "99 with the node types" in str(caught.value)
        assert str(caught.value.remedy) == "Name another feature, or none, with --balance-ntypes."


def test_random_gives_every_partition_its_share_of_every_type(stores: tuple[Store, Store]) -> None:
    parts = assigned(stores, PartitionConfig(num_parts=3, engine="random"))
    offsets = load_metadata(stores[0]).node_offsets
    for piece in np.split(parts, offsets[1:-1]):
        sizes = np.bincount(piece, minlength=3)
        assert sizes.max() - sizes.min() <= 1


def test_the_weights_are_those_that_dgl_builds(stores: tuple[Store, Store]) -> None:
    metadata = load_metadata(stores[0])
    config = PartitionConfig(num_parts=2, edge_tolerance="none")
    by_type = constraints_of(Problem(config, metadata, stores[1])).columns()
    assert by_type.sum(axis=0).tolist() == list(metadata.num_nodes)
    edges = constraints_of(Problem(replace(config, balance="edges"), metadata, stores[1])).columns()
    np.testing.assert_array_equal(edges[:, :3], by_type)
    assert edges[:, 3:].sum() == sum(metadata.num_edges)


def test_metis_needs_the_prepared_graph(tmp_path: Path) -> None:
    source = open_store(str(library().write(tmp_path / "g")))
    with pytest.raises(InvalidInputError, match=r"'prepare' has not been done.*partition-ops run"):
        partition_nodes(PartitionConfig(num_parts=2), source, open_store(str(tmp_path / "o")))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_parts": 0}, "--num-parts.*Found: 0.*1 to 65536"),
        ({"num_parts": 70_000}, "--num-parts"),
        ({"num_parts": 2, "seed": -1}, "seed"),
        ({"num_parts": 2, "balance": "luck"}, "--balance cannot be 'luck'.*node-types"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PartitionConfig(**options)  # type: ignore[arg-type]


def test_the_error_about_an_unknown_engine_lists_the_engines(stores: tuple[Store, Store]) -> None:
    with pytest.raises(UsageError, match=r"--engine cannot be 'magic'.*two-level, metis, parmetis, random"):
        partition_nodes(PartitionConfig(num_parts=2, engine="magic"), *stores)


@pytest.mark.parametrize(
    "options",
    [
        {"num_parts": 0},
        {"num_trainers_per_machine": 0},
        {"num_trainers_per_machine": 40_000},
        {"migration_price": -1},
        {"drift": 0.5},
        {"seed": -1},
        {"tolerance": 1.0},
        {"target_shares": (1.0,)},
        {"target_shares": (1.0, 1e-300)},
    ],
)
def test_a_number_out_of_range_is_told_what_was_expected(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^--.*Found: .*Expected: "):
        PartitionConfig(**{"num_parts": 2, **options})


def foreign(folder: Path, **types: str) -> Store:
    """An assignment as DGL's own tools write it: text and partition_meta.json, no twin."""
    store = open_store(str(folder))
    store.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": 3, "algo_name": "metis"})
    for name, text in types.items():
        store.write_bytes(f"{name}.txt", text.encode())
    return store


def test_an_assignment_made_elsewhere_is_brought_in(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 3, "b": 2}, {"a:r:b": Edges([0], [1])})
    source, destination = open_store(str(graph.write(tmp_path / "g"))), open_store(str(tmp_path / "o"))
    assignment = foreign(tmp_path / "theirs", a="2\n0\n0\n", b="1\r\n2\r\n")
    result = import_assignment(StageConfig(), source, assignment, destination)
    assert result.counters["nodes_per_part"] == [2, 1, 2]
    found = read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source))
    assert found.parts.tolist() == [2, 0, 0, 1, 2]
    assert found.num_parts == 3


@pytest.mark.parametrize(
    ("b", "words"),
    [
        ("1\n", r"b\.txt.*number of lines.*'b'.*Found: 1.*Expected: 2"),
        ("1\n3\n", r"line 2 \(node type 'b', ID 1\).*Found: 3.*0 to 2.*num_parts in partition_meta"),
        (
            "\n1\n",
            r"line 1 \(node type 'b', ID 0\) is not a partition number.*Found: ''.*0 to 2.*Line i, counted",
        ),
        ("1\n1 2\n", r"line 2 \(node type 'b', ID 1\) is not a partition number.*Found: '1 2'"),
        ("-1\n0\n", r"line 1 \(node type 'b', ID 0\).*Found: -1"),
        ("0\nx\n", r"line 2 \(node type 'b', ID 1\) is not a partition number.*'x'"),
        ("0\n1.0\n", r"line 2 .*'1\.0'"),
        ("0\n99999999999999999999999\n", r"line 2 "),
    ],
)
def test_a_wrong_assignment_is_refused(tmp_path: Path, b: str, words: str) -> None:
    graph = SmallGraph({"a": 3, "b": 2}, {"a:r:b": Edges([0], [1])})
    source, destination = open_store(str(graph.write(tmp_path / "g"))), open_store(str(tmp_path / "o"))
    with pytest.raises(InvalidInputError, match=words):
        import_assignment(StageConfig(), source, foreign(tmp_path / "t", a="0\n1\n2\n", b=b), destination)


def test_a_text_edited_by_hand_wins_over_its_binary_twin(stores: tuple[Store, Store]) -> None:
    source, destination = stores
    before = assigned(stores, PartitionConfig(num_parts=2, engine="random"))
    folder = destination.child(layout.ASSIGNMENT)
    lines = folder.read_bytes("paper.txt").split()
    lines[0] = b"0" if lines[0] == b"1" else b"1"
    folder.write_bytes("paper.txt", b"\n".join(lines) + b"\n")
    after = read_assignment(folder, load_metadata(source)).parts
    assert np.flatnonzero(before != after).tolist() == [load_metadata(source).node_offsets[1]]


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"no array at all", None])
def test_a_damaged_binary_twin_is_not_needed(stores: tuple[Store, Store], data: bytes | None) -> None:
    before = assigned(stores, PartitionConfig(num_parts=2, engine="random"))
    folder = stores[1].child(layout.ASSIGNMENT)
    if data is None:
        folder.write_array("paper.npy", np.zeros(3, np.int32))
    else:
        folder.write_bytes("paper.npy", data)
    assert (read_assignment(folder, load_metadata(stores[0])).parts == before).all()


def test_an_assignment_from_the_text_of_parmetis(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = library()
    output = parmetis_output(graph, 3, attributes=2)
    output.nodes.append([])
    output.edges.append([])
    folder = open_store(str(output.write(tmp_path / "text")))
    source, destination = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    import_assignment(StageConfig(), source, folder, destination, parmetis_parts=4, parmetis_weights=3)
    found = read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source))
    assert (found.parts == output.parts).all() and found.num_parts == 4
    assert "1 of 4 partitions have no nodes: 3" in caplog.text


def single_file(parts: np.ndarray, folder: Path, *, num_parts: int = 3) -> Store:
    """Write an assignment as pm_dglpart3 and PM4GNN do: a row for each node, in no order."""
    folder.mkdir()
    order = np.random.default_rng(1).permutation(len(parts))
    rows = [f"{node} {parts[node]}\n" for node in order]
    (folder / f"small_part.{num_parts}").write_text("".join(rows))
    return open_store(str(folder))


def test_an_assignment_from_the_single_file_of_pm_dglpart3(tmp_path: Path) -> None:
    graph = library()
    parts = np.random.default_rng(0).integers(0, 3, sum(graph.nodes.values()))
    folder = single_file(parts, tmp_path / "text")
    source, destination = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    import_assignment(StageConfig(), source, folder, destination, parmetis_parts=3)
    found = read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source))
    np.testing.assert_array_equal(found.parts, parts)
    assert found.num_parts == 3
    (tmp_path / "text/p000-small_nodes.txt").touch()
    with pytest.raises(InvalidInputError, match=r"two assignments.*small_part\.3"):
        import_assignment(StageConfig(), source, folder, destination, parmetis_parts=3)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("65 0", r"small_part\.3, line 4: no such node.*0 to 64"),
        ("-1 0", "line 4: no such node"),
        ("7 3", "line 4: no such partition.*0 to 2"),
        ("7", "line 4: the row has 1 fields"),
        ("7 x", "line 4: <part> is not int64 but 'x'"),
        ("same", "line 4: the node has a partition already"),
        ("", r"1 nodes are in no file small_part\.3"),
    ],
)
def test_a_single_file_that_is_no_assignment(line: str, said: str, tmp_path: Path) -> None:
    graph = library()
    folder = single_file(np.zeros(65, int), tmp_path / "text")
    lines = folder.read_bytes("small_part.3").decode().splitlines()
    lines[3] = lines[2] if line == "same" else line
    folder.write_bytes("small_part.3", "\n".join(lines).encode())
    source = open_store(str(graph.write(tmp_path / "in")))
    with pytest.raises(InvalidInputError, match=said):
        import_assignment(StageConfig(), source, folder, open_store("unused"), parmetis_parts=3)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((0, 9, 1, 0, 0, 0), "p0-small_nodes.txt, line 1: there is no such node type"),
        ((0, 0, 1, 0, 0, 10**6), "p0-small_nodes.txt, line 1: the original ID is outside"),
        ((0, 0, 1, 0, 0, "x"), "p0-small_nodes.txt, line 1: <orig_type_node_id> is not int64"),
        (None, "1 nodes are in no file"),
        ("twice", "line 2: the node has a partition already"),
    ],
)
def test_text_of_parmetis_that_is_no_assignment(row: object, said: str, tmp_path: Path) -> None:
    output = parmetis_output(library(), 2)
    if row is None:
        del output.nodes[0][0]
    else:
        output.nodes[0][0] = output.nodes[0][1] if row == "twice" else row
    source = open_store(str(library().write(tmp_path / "in")))
    folder = open_store(str(output.write(tmp_path / "text")))
    with pytest.raises(InvalidInputError, match=said):
        import_assignment(
            StageConfig(), source, folder, open_store("unused"), parmetis_parts=2, parmetis_weights=3
        )


def test_the_name_of_an_engine_is_that_of_its_module() -> None:
    assert [find_engine(name).name for name in engine_names()] == [*engine_names()]


def test_every_engine_has_a_summary_for_the_help() -> None:
    assert [*engine_summaries()] == [*engine_names()]
    assert all(engine_summaries().values())
