"""Graphs of DGL, PyG, NetworkX and Arrow as inputs, and inputs as graphs of DGL and PyG."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from airflow.sdk.exceptions import AirflowFailException
from graph_partitioning.operators.ingest import IngestTablesOperator
from hypothesis import example, given, settings
from torch_geometric.data import Data, HeteroData

import partition_ops
from partition_ops import InvalidInputError, UsageError, ingest
from partition_ops.stages.ingest.memory import libraries
from partition_ops.system.dgl_import import import_dgl
from tests.airflow_tasks import TaskInstance
from tests.command_line import Called
from tests.graphs import SHAPES, Layout, SmallGraph, Values, library, social
from tests.strategies import graphs
from tests.temporary import temporary_folder

dgl: Any = import_dgl()


def ends(graph: SmallGraph) -> dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor]]:
    return {
        tuple(name.split(":")): (torch.tensor(e.src).long(), torch.tensor(e.dst).long())
        for name, e in graph.edges.items()
    }


def tensor(value: Values) -> torch.Tensor:
    array = np.ascontiguousarray(value.array)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def dgl_graph(graph: SmallGraph) -> Any:
    made = dgl.heterograph(ends(graph), graph.nodes)
    for value in graph.node_values:
        made.nodes[value.type_name].data[value.name] = tensor(value)
    for value in graph.edge_values:
        made.edges[tuple(value.type_name.split(":"))].data[value.name] = tensor(value)
    return made


def pyg_graph(graph: SmallGraph) -> HeteroData:
    data = HeteroData()
    for name, count in graph.nodes.items():
        data[name].num_nodes = count
    for triple, pair in ends(graph).items():
        data[triple].edge_index = torch.stack(pair)
    for value in graph.node_values:
        data[value.type_name][value.name] = tensor(value)
    for value in graph.edge_values:
        data[tuple(value.type_name.split(":"))][value.name] = tensor(value)
    return data


def assert_is(found: Any, graph: SmallGraph, node: Any, edge: Any) -> None:
    """Compare features bit by bit; ``node`` and ``edge`` return the features of a type."""
    for names, of_type, values in (
        (graph.nodes, node, graph.node_values),
        (graph.edges, edge, graph.edge_values),
    ):
        for name in names:
            expected = {v.name: tensor(v) for v in values if v.type_name == name}
            have = dict(of_type(name))
            assert have.keys() == expected.keys()
            for key, wanted in expected.items():
                assert (have[key].dtype, have[key].shape) == (wanted.dtype, wanted.shape)
                assert have[key].numpy().tobytes() == wanted.numpy().tobytes()


def assert_is_dgl(found: Any, graph: SmallGraph) -> None:
    assert {name: found.num_nodes(name) for name in found.ntypes} == graph.nodes
    assert {*found.canonical_etypes} == {*ends(graph)}
    for triple, (src, dst) in ends(graph).items():
        have = found.edges(order="eid", etype=triple)
        assert torch.equal(have[0], src) and torch.equal(have[1], dst)
    assert_is(found, graph, lambda n: found.nodes[n].data, lambda n: found.edges[tuple(n.split(":"))].data)


def assert_is_pyg(found: HeteroData, graph: SmallGraph) -> None:
    assert {name: found[name].num_nodes for name in found.node_types} == graph.nodes
    for triple, pair in ends(graph).items():
        assert torch.equal(found[triple].edge_index, torch.stack(pair))
    assert_is(
        found,
        graph,
        lambda n: {key: v for key, v in found[n].items() if key != "num_nodes"},
        lambda n: {key: v for key, v in found[tuple(n.split(":"))].items() if key != "edge_index"},
    )


@settings(max_examples=20)
@given(graph=graphs())
@example(graph=library())
@example(graph=social())
@example(graph=SHAPES["isolated nodes"])
@example(graph=SHAPES["a type without nodes last"])
def test_graphs_survive_the_way_through_chunks(graph: SmallGraph) -> None:
    with temporary_folder() as folder:
        ingest.from_pyg(pyg_graph(graph)).write(f"{folder}/written")
        assert_is_dgl(ingest.to_dgl(f"{folder}/written"), graph)
        memory = ingest.from_dgl(dgl_graph(graph))
        assert_is_dgl(ingest.to_dgl(memory), graph)
        if [*graph.nodes] == ["_N"]:
            assert_is_dgl(ingest.to_dgl(ingest.from_pyg(ingest.to_pyg(memory))), graph)
        else:
            assert_is_pyg(ingest.to_pyg(memory), graph)


def test_a_chunked_graph_of_others_is_read(tmp_path: Path) -> None:
    graph = library(layout=Layout("csv", header=True))
    assert_is_dgl(ingest.to_dgl(graph.write(tmp_path)), graph)
    assert_is_pyg(ingest.to_pyg(tmp_path), graph)


def test_a_homogeneous_graph_of_pyg_comes_back_as_one(tmp_path: Path) -> None:
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    data = Data(edge_index=edge_index, x=torch.rand(4, 2), y=torch.tensor([1, 0, 1, 0]), num_nodes=4)
    data.edge_attr, data.train_mask = torch.rand(3, 1), torch.tensor([True, False, True, False])
    ingest.from_pyg(data).write(tmp_path / "g")
    found = ingest.to_pyg(tmp_path / "g")
    assert isinstance(found, Data) and found.num_nodes == 4
    for name in ("edge_index", "x", "y", "edge_attr", "train_mask"):
        assert torch.equal(found[name], data[name]) and found[name].dtype == data[name].dtype
    as_dgl = ingest.to_dgl(ingest.from_pyg(data))
    assert as_dgl.is_homogeneous and torch.equal(as_dgl.edata["edge_attr"], data.edge_attr)


def test_a_graph_in_memory_is_partitioned_and_resumed(tmp_path: Path) -> None:
    graph = library()
    options = {"num_parts": 2, "engine": "random", "ignore_estimate": True, "on_defect": "warn"}
    partition_ops.run(ingest.from_dgl(dgl_graph(graph)), tmp_path / "out", **options)
    again = partition_ops.run(ingest.from_pyg(pyg_graph(graph)), tmp_path / "out", **options)
    assert all(task.skipped for task in again.tasks if task.task != "ingest")
    report = partition_ops.verify(ingest.from_dgl(dgl_graph(graph)), tmp_path / "out")
    assert report.passed, report.failed
    changed = dgl_graph(graph)
    changed.nodes["paper"].data["label"] += 1
    report = partition_ops.verify(ingest.from_dgl(changed), tmp_path / "out")
    assert "node-features" in {check.name for check in report.failed}
    with pytest.raises(UsageError, match="lies inside a finished output"):
        ingest.from_dgl(changed).write(tmp_path / "out/ingest")


def test_nodes_of_networkx_keep_their_keys(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("ann", kind="user", age=31)
    graph.add_node("bob", kind="user", age=40)
    graph.add_node((1, 2), kind="item")
    graph.add_edge("ann", (1, 2), stars=4.5)
    graph.add_edge("ann", "bob", stars=1.0)
    made = ingest.from_networkx(graph, node_type="kind", node_attrs=["age"], edge_attrs=["stars"])
    made.write(tmp_path / "g")
    found = ingest.to_dgl(tmp_path / "g")
    assert found.num_nodes("user") == 2 and found.nodes["user"].data["age"].tolist() == [31, 40]
    assert found.edges(etype=("item", "to", "user"))[1].tolist() == [0]
    assert found.edges(order="eid", etype=("user", "to", "user"))[0].tolist() == [0, 1]
    assert found.edges["user", "to", "item"].data["stars"].tolist() == [4.5]
    keys = {t: pq.read_table(tmp_path / f"g/node_ids/{t}-0.parquet")["key"].to_pylist() for t in found.ntypes}
    assert keys == {"user": ["ann", "bob"], "item": ["(1, 2)"]}


def test_edges_of_networkx_have_directions_and_relations() -> None:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from([7, 3])
    for name in ("a", "b", "a"):
        graph.add_edge(7, 3, name=name)
    found = ingest.to_dgl(ingest.from_networkx(graph, edge_type="name"))
    assert {t: found.num_edges(t) for t in found.etypes} == {"a": 2, "b": 1}
    loop = ingest.to_dgl(ingest.from_networkx(nx.Graph([(0, 0), (0, 1)])))
    assert loop.is_homogeneous and loop.num_edges() == 3


def test_arrow_tables_with_keys_become_a_graph(tmp_path: Path) -> None:
    rated = pa.table({"src": ["u9", "u1", "u9"], "dst": [7, 8, 8], "stars": [1.0, 2.0, 3.0]})
    users = pa.table({"key": ["u1", "u9", "u5"], "age": [1, 9, 5]})
    graph = ingest.from_edge_tables({"user:rated:item": rated}, {"user": users})
    result = graph.write(tmp_path / "g")
    assert result.counters["nodes"] == 5 and graph.write(tmp_path / "g").skipped
    found = ingest.to_dgl(tmp_path / "g")
    assert found.nodes["user"].data["age"].tolist() == [1, 5, 9]
    src, dst = found.edges(order="eid")
    assert [*zip(src.tolist(), dst.tolist(), strict=True)] == [(0, 1), (2, 0), (2, 1)]
    assert found.edata["stars"].tolist() == [2.0, 1.0, 3.0]
    absent = pa.table({"src": ["nobody"], "dst": [7], "stars": [1.0]})
    with pytest.raises(InvalidInputError, match="src 'nobody'"):
        ingest.from_edge_tables({"user:rated:item": absent}, {"user": users}).write(tmp_path / "h")


def hetero(**more: Any) -> HeteroData:
    data = HeteroData()
    data["a"].num_nodes = 3
    data["a", "r", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    for name, value in more.items():
        data["a"][name] = value
    return data


def _with_edges(index: Any, kind: tuple[str, str, str] = ("a", "r", "a")) -> HeteroData:
    data = hetero()
    data[kind].edge_index = index
    return data


def _without_nodes() -> HeteroData:
    data = hetero()
    del data["a"].num_nodes
    return data


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ingest.from_pyg(_with_edges(torch.tensor([[0], [0]]), ("a", "s", "b"))),
            "data.*'b'",
        ),
        (lambda: ingest.from_pyg(_with_edges(torch.tensor([[0, 3], [1, 0]]))), r"3 \(edge 1\).*0 to 2"),
        (lambda: ingest.from_pyg(_with_edges(torch.tensor([0, 1]))), "edge_index has a wrong shape"),
        (lambda: ingest.from_pyg(_with_edges(torch.tensor([[0.5], [0.5]]))), "IDs of nodes are not integers"),
        (lambda: ingest.from_pyg(_without_nodes()), r"number of nodes 'a' is not known.*num_nodes"),
        (lambda: ingest.from_pyg(hetero(x=torch.rand(4, 2))), r"'x' is not the number.*\(4, 2\).*3 rows"),
        (lambda: ingest.from_pyg(hetero(x=torch.rand(3).bfloat16())), r"tensor of torch.bfloat16.*float\(\)"),
        (lambda: ingest.from_pyg(hetero(x=torch.eye(3).to_sparse())), "cannot be stored.*to_dense"),
        (lambda: ingest.from_pyg(hetero(names=["a", "b", "c"])), "'names' is not numbers.*list"),
        (
            lambda: ingest.from_pyg(hetero(x=torch.rand(3).to(torch.complex64))),
            "is not numbers.*complex64",
        ),
        (lambda: ingest.from_pyg(hetero(), graph_name="my graph"), "graph name.*'my graph'"),
        (lambda: ingest.from_networkx(nx.DiGraph()), "no edge type"),
        (lambda: ingest.from_networkx(nx.path_graph(2), node_type="kind"), "node 0 has no type"),
        (lambda: ingest.from_edge_tables({"a:r:b": pa.table({"src": [1]})}), "'a:r:b' has no column 'dst'"),
        (lambda: ingest.from_edge_tables({"a:b": pa.table({"src": [1], "dst": [1]})}), "a:b"),
        (lambda: ingest.from_dgl(dgl.heterograph({("a:b", "r", "a:b"): ([0], [0])})), "contains ':'.*'a:b'"),
    ],
)
def test_bad_graphs_are_explained(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        make()
    assert re.search(message, " ".join(raised.value.lines())), raised.value.lines()


def test_other_objects_are_wrong_use() -> None:
    for function in (ingest.from_dgl, ingest.from_pyg, ingest.from_networkx):
        with pytest.raises(UsageError, match="needs a"):
            function(object())
    with pytest.raises(UsageError, match="block"):
        ingest.from_dgl(dgl.to_block(dgl.graph(([0], [1]))))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "my-graph.bin"
    dgl.save_graphs(str(path), [dgl_graph(library())])
    return path


def test_a_saved_graph_is_an_input(saved: Path, tmp_path: Path, called: Called) -> None:
    made = called("ingest", saved, tmp_path / "chunks")
    assert made.returncode == 0, made.stderr
    assert partition_ops.ingest.to_dgl(tmp_path / "chunks").num_nodes("paper") == 40
    done = called("schema", saved, "--output", tmp_path / "schema.json")
    assert done.returncode == 0, done.stderr
    first = TaskInstance().run(_operator(saved, tmp_path))
    assert re.search(r"/my_graph/runs/one-[0-9a-f]+/ingest$", first["output"])
    assert TaskInstance().run(_operator(saved, tmp_path))["skipped"]


def _operator(path: Path, folder: Path) -> IngestTablesOperator:
    where = {"input_uri": str(path), "output_uri": str(folder / "runs"), "run_id": "one"}
    return IngestTablesOperator(task_id="ingest", **where)


def test_bad_saved_graphs_have_exit_code_3(saved: Path, tmp_path: Path, called: Called) -> None:
    cut, two, other = (tmp_path / f"{name}.bin" for name in ("cut", "two", "other"))
    cut.write_bytes(saved.read_bytes()[:3000])
    dgl.save_graphs(str(two), [dgl.graph(([0], [1])), dgl.graph(([0], [1]))])
    other.write_bytes(b"nothing of DGL")
    for path, message in (
        (cut, "damaged or truncated"),
        (two, "has 2 graphs"),
        (other, "cannot be read by DGL"),
        (tmp_path / "none.bin", "There is no"),
    ):
        refused = called("ingest", path, tmp_path / "chunks")
        assert refused.returncode == 3 and message in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr and str(path) in refused.stderr
    assert called("ingest", saved, tmp_path / "c", "--previous", tmp_path).returncode == 2
    with pytest.raises(AirflowFailException, match="There is no"):
        TaskInstance().run(_operator(tmp_path / "none.bin", tmp_path))


@pytest.mark.parametrize(
    ("seconds", "memory", "good"), [(20, 1 << 30, True), (20, 1 << 20, False), (-1, 1 << 30, False)]
)
def test_the_process_that_loads_a_saved_graph_first_has_limits(
    seconds: int, memory: int, good: bool, tmp_path: Path
) -> None:
    graph = dgl.graph(([0], [1]))
    graph.ndata["x"] = torch.zeros(2, 8_000_000)
    dgl.save_graphs(str(tmp_path / "large.bin"), [graph])
    command = [sys.executable, "-c", libraries.LOADER, str(tmp_path / "large.bin"), str(seconds), str(memory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == good, done.stderr
    if seconds < 0:
        assert done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_the_module_is_light() -> None:
    code = "import sys, partition_ops; partition_ops.ingest.from_dgl; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert not {"torch", "dgl", "numpy", "pyarrow"} & {*done.stdout.split()}
