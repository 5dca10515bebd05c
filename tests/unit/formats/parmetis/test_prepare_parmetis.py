"""The text files for ParMETIS, against the examples of the guide and against the input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.cli import main
from partition_ops.formats.parmetis import prepare_text
from partition_ops.formats.parmetis.schema_metadata import read_schema
from partition_ops.formats.parmetis.text_table import text_rows
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from tests.graphs import SHAPES, Edges, Layout, SmallGraph, Values, library, social
from tests.parmetis import attribute_table
from tests.strategies import graphs

GOLDEN = Path(__file__).parents[3] / "golden"  # the examples of the DGL guide, chapter 7.1
Row = tuple[int, ...]
COLUMNS = (("edges.txt", 4), ("removed_edges.txt", 4), ("stats.txt", 3))


def prepared(graph: SmallGraph, folder: Path, attributes: tuple[str, ...] = ()) -> dict[str, str]:
    """The text files, by what is behind the graph's name in theirs."""
    source = open_store(str(graph.write(folder / "input")))
    config = PrepareConfig(format="parmetis", attributes=attributes)
    prepare_graph(config, source, open_store(str(folder / "output")))
    texts = (folder / "output" / "prepare").iterdir()
    return {path.name.removeprefix(f"{graph.name}_"): path.read_text() for path in texts}


def rows(text: str) -> list[Row]:
    return [tuple(map(int, line.split(" "))) for line in text.splitlines()]


def input_edges(graph: SmallGraph) -> list[Row]:
    """Every edge of the input, in the columns of the edge file, in homogeneous ID order."""
    names = list(graph.nodes)
    offsets = dict(zip(names, np.cumsum([0, *graph.nodes.values()]).tolist(), strict=False))
    found = []
    for type_id, (name, edges) in enumerate(graph.edges.items()):
        src, _, dst = name.split(":")
        for edge_id, (a, b) in enumerate(zip(edges.src, edges.dst, strict=True)):
            found.append((a + offsets[src], b + offsets[dst], edge_id, type_id))
    return found


def check(graph: SmallGraph, texts: dict[str, str]) -> None:
    """Nothing lost, nothing twice, in order, and the record of what was removed is right."""
    kept, removed = rows(texts["edges.txt"]), rows(texts["removed_edges.txt"])
    everything = input_edges(graph)
    assert sorted(kept + removed, key=lambda row: (row[3], row[2])) == everything
    first = {}
    for row in everything:
        first.setdefault(row[:2], row)
    assert kept == [row for row in everything if row[0] != row[1] and first[row[:2]] == row]
    nodes = rows(texts["nodes.txt"])
    types = len(graph.nodes)
    assert nodes == [
        (type_id, *(int(other == type_id) for other in range(types)), node)
        for type_id, count in enumerate(graph.nodes.values())
        for node in range(count)
    ]
    assert rows(texts["stats.txt"]) == [(len(nodes), len(kept), types)]


def test_the_toy_example_of_the_guide_line_for_line(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 3, "b": 4}, {"a:r:b": Edges([0, 1], [3, 0])})
    texts = prepared(graph, tmp_path)
    for name in ("nodes.txt", "edges.txt", "stats.txt"):
        assert texts[name].splitlines() == (GOLDEN / f"toy_{name}").read_text().splitlines()
    assert texts["removed_edges.txt"] == ""


def test_duplicates_of_whatever_type_and_self_loops_are_removed_and_recorded(tmp_path: Path) -> None:
    graph = SmallGraph(
        {"a": 4, "b": 2},
        {
            "a:r:a": Edges([0, 1, 0, 2, 0], [1, 1, 1, 3, 1], Layout("csv", (2, 0, 3))),
            "a:s:a": Edges([0, 1], [1, 0]),
            "a:r:b": Edges([1, 0, 1], [1, 0, 1]),
        },
    )
    texts = prepared(graph, tmp_path)
    check(graph, texts)
    of_one_type = [(1, 1, 1, 0), (0, 1, 2, 0), (0, 1, 4, 0)]
    assert rows(texts["removed_edges.txt"]) == [*of_one_type, (0, 1, 0, 1), (1, 5, 2, 2)]
    assert (1, 0, 1, 1) in rows(texts["edges.txt"])  # the reverse of another edge
    assert rows(texts["stats.txt"]) == [(6, 5, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_of_awkward_shape(shape: str, tmp_path: Path) -> None:
    check(SHAPES[shape], prepared(SHAPES[shape], tmp_path))


@settings(max_examples=25)
@given(graph=graphs())
def test_any_graph(graph: SmallGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(graph, prepared(graph, tmp_path_factory.mktemp("any")))


@settings(max_examples=10)
@given(graph=graphs())
def test_any_graph_with_the_duplicates_looked_for_on_the_disk(
    graph: SmallGraph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_text, "MEMORY", 1)
        check(graph, prepared(graph, tmp_path_factory.mktemp("any")))


@settings(max_examples=200)
@given(st.lists(st.tuples(*[st.integers(0, 2**63 - 1) | st.integers(0, 12)] * 3)))
def test_rows_are_written_as_python_writes_them(numbers: list[Row]) -> None:
    columns = np.array(numbers, np.int64).reshape(-1, 3).T
    text = text_rows(list(columns)).to_pybytes().decode()
    assert text == "".join(" ".join(map(str, row)) + "\n" for row in numbers)


def test_a_second_call_does_nothing_and_leaves_the_binary_graph_alone(tmp_path: Path) -> None:
    source = open_store(str(social().write(tmp_path / "input")))
    output = open_store(str(tmp_path / "output"))
    prepare_graph(PrepareConfig(), source, output)
    assert not prepare_graph(PrepareConfig(format="parmetis"), source, output).skipped
    assert prepare_graph(PrepareConfig(format="parmetis"), source, output).skipped
    assert prepare_graph(PrepareConfig(), source, output).skipped


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(library().write(tmp_path / "input"))
    arguments = ["prepare", folder, "--output", str(tmp_path / "out"), "--format", "parmetis"]
    assert main([*arguments, "--graph-name", "lib"]) == 0
    assert sorted(path.name for path in (tmp_path / "out/prepare").iterdir()) == [
        "lib_edges.txt",
        "lib_nodes.txt",
        "lib_removed_edges.txt",
        "lib_stats.txt",
    ]


def test_an_id_out_of_range_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = SmallGraph({"a": 2}, {"a:r:a": Edges([0, 5], [1, 1])}).write(tmp_path / "input")
    code = main(["prepare", str(folder), "--output", str(tmp_path / "out"), "--format", "parmetis"])
    assert code == 3
    assert "row 1" in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("*_edges.txt"))


def check_attributes(
    graph: SmallGraph, folder: Path, names: tuple[str, ...], *, asked: str | None = None
) -> None:
    """Behind the columns of every row are the values of its node or edge, to the last bit."""
    texts = prepared(graph, folder, (asked,) if asked else names)
    kinds = {name: len(edges.src) for name, edges in graph.edges.items()}
    of_nodes = [name for name in names if any(value.name == name for value in graph.node_values)]
    of_edges = [name for name in names if any(value.name == name for value in graph.edge_values)]
    nodes = attribute_table(graph.node_values, graph.nodes, of_nodes)
    edges = list(attribute_table(graph.edge_values, kinds, of_edges).values())
    fixed = len(graph.nodes) + 2
    lines = [line.split(" ") for line in texts["nodes.txt"].splitlines()]
    expected = np.concatenate(list(nodes.values()))
    assert len(lines) == len(expected)
    for line, row in zip(lines, expected, strict=True):
        np.testing.assert_array_equal([float(field) for field in line[fixed:]], row)
    for name in ("edges.txt", "removed_edges.txt"):
        for line in texts[name].splitlines():
            fields = line.split(" ")
            expected = edges[int(fields[3])][int(fields[2])]
            np.testing.assert_array_equal([float(field) for field in fields[4:]], expected)
    plain = {
        name: [line.split(" ")[:columns] for line in texts[name].splitlines()] for name, columns in COLUMNS
    }
    without = prepared(graph, folder / "without")
    assert plain == {name: [line.split(" ") for line in without[name].splitlines()] for name in plain}


@pytest.mark.parametrize("names", [("feat",), ("grid", "feat", "year"), ("train_mask", "label"), ("weight",)])
@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_attributes_behind_the_columns(
    names: tuple[str, ...], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_text, "rows_at_once", lambda attributes: rows)
    graph = social() if names == ("weight",) else library()
    check_attributes(graph, tmp_path, names)


def test_all_attributes_of_types_with_other_features_and_other_widths(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    graph = SmallGraph(
        {"a": 5, "b": 3},
        {"a:r:a": Edges([0, 1, 1, 0], [1, 1, 2, 1]), "a:s:b": Edges([0, 0, 2], [1, 0, 1])},
        [
            Values("a", "x", rng.normal(size=(5, 2)).astype(np.float32), Layout("parquet", (2, 3))),
            Values("b", "x", rng.integers(0, 9, (3, 1, 3)), Layout("numpy", (1, 2))),
            Values("b", "only", np.array([True, False, True])),
            Values("a", "half", rng.normal(size=5).astype(np.float16)),
        ],
        [Values("a:s:b", "x", np.array([2**62, -1, 3]), Layout("csv", (2, 1)))],
    )
    check_attributes(graph, tmp_path, ("x", "half", "only"), asked="all")


@settings(max_examples=15)
@given(graph=graphs())
def test_attributes_of_any_graph(graph: SmallGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    names = dict.fromkeys(value.name for value in (*graph.node_values, *graph.edge_values))
    check_attributes(graph, tmp_path_factory.mktemp("any"), tuple(names))


def test_a_feature_that_no_type_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["prepare", str(library().write(tmp_path / "in")), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--format", "parmetis", "--attributes", "feet"]) == 2
    said = capsys.readouterr().err
    assert "No type has a feature 'feet'" in said and "all, feat, label, train_mask, grid, year" in said
    assert main([*arguments, "--attributes", "feat"]) == 2
    assert "--attributes needs --format parmetis" in capsys.readouterr().err


def weights_of(graph: SmallGraph, folder: Path, kind: str) -> list[Row]:
    """The weights in the node file; the other columns are as ever."""
    arguments = ["prepare", str(graph.write(folder / "in")), "--output", str(folder / kind)]
    assert main([*arguments, "--format", "parmetis", "--weights", kind]) == 0
    texts = {path.name: path.read_text() for path in (folder / kind / "prepare").iterdir()}
    found = rows(texts["small_nodes.txt"])
    expected = [(kind, node) for kind, count in enumerate(graph.nodes.values()) for node in range(count)]
    assert [(row[0], row[-1]) for row in found] == expected
    assert rows(texts["small_stats.txt"])[0][2] == len(found[0]) - 2
    return [row[1:-1] for row in found]


def test_other_weights(tmp_path: Path) -> None:
    graph = SmallGraph(
        {"a": 3, "b": 2},
        {"a:r:a": Edges([0, 1, 1], [1, 1, 2]), "a:s:b": Edges([0, 0, 2], [1, 0, 1])},
        [Values("a", "size", np.array([5, 0, 7])), Values("b", "train_mask", np.array([True, False]))],
    )
    assert weights_of(graph, tmp_path, "one") == [(1,)] * 5
    assert weights_of(graph, tmp_path, "degree") == [(3,), (2,), (2,), (1,), (2,)]
    assert weights_of(graph, tmp_path, "column=size") == [(5,), (0,), (7,), (1,), (1,)]
    assert weights_of(graph, tmp_path, "mask=train_mask") == [(0, 1)] * 3 + [(1, 0), (0, 1)]
    assert weights_of(graph, tmp_path, "node-types") == [(1, 0)] * 3 + [(0, 1)] * 2


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("size", 2, "--weights cannot be 'size'"),
        ("column=nothing", 2, "No node type has a feature 'nothing'"),
        ("column=debt", 3, "a/debt cannot be weights"),
        ("column=ratio", 3, "a/ratio cannot be weights"),
    ],
)
def test_weights_that_are_none(
    kind: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [Values("a", "debt", np.array([1, -1])), Values("a", "ratio", np.array([0.5, 1]))]
    folder = SmallGraph({"a": 2}, {"a:r:a": Edges([0], [1])}, values).write(tmp_path / "in")
    arguments = ["prepare", str(folder), "--output", str(tmp_path / "out"), "--format", "parmetis"]
    assert main([*arguments, "--weights", kind]) == code
    assert said in capsys.readouterr().err


def test_the_schema_of_the_guide_exactly_and_back(tmp_path: Path) -> None:
    golden = (GOLDEN / "ogbn_mag_schema.json").read_text()
    expected = json.loads(golden)
    ends = ("author institution", "author paper", "field_of_study paper", "institution author")
    ends += ("paper paper", "paper field_of_study", "paper paper", "paper author")
    names = [
        ":".join((a.split()[0], rel, a.split()[1])) for a, rel in zip(ends, expected["eid"], strict=True)
    ]
    no_files = {"format": {"name": "csv", "delimiter": " "}, "data": []}
    document = {
        "graph_name": "mag",
        "node_type": list(expected["nid"]),
        "edge_type": names,
        "num_nodes_per_type": [end - begin for begin, end in expected["nid"].values()],
        "num_edges_per_type": [end - begin for begin, end in expected["eid"].values()],
        "edges": dict.fromkeys(names, no_files),
    }
    source, out = tmp_path / "mag", tmp_path / "mag.json"
    source.mkdir()
    (source / "metadata.json").write_text(json.dumps(document))
    assert main(["schema", str(source), "--output", str(out)]) == 0
    written = json.loads(out.read_text())
    assert json.dumps(written, indent=4).splitlines() == golden.splitlines()  # in this order too
    assert read_schema(open_store(str(tmp_path)), "mag.json") == expected
    assert read_schema(open_store(str(GOLDEN)), "ogbn_mag_schema.json") == expected
    assert main(["schema", str(source), "--canonical", "--output", str(out)]) == 0
    assert list(json.loads(out.read_text())["eid"]) == names


def test_relations_that_are_not_unique_or_have_no_edges_stay_whole(tmp_path: Path) -> None:
    edges = {
        "a:r:b": Edges([0], [0]),
        "b:r:a": Edges([0], [0]),
        "a:s:b": Edges([0], [0]),
        "b:t:a": Edges([], []),
    }
    folder = SmallGraph({"a": 1, "b": 1}, edges).write(tmp_path / "in")
    assert main(["schema", str(folder), "--output", str(tmp_path / "s.json")]) == 0
    assert list(json.loads((tmp_path / "s.json").read_text())["eid"]) == ["a:r:b", "b:r:a", "s", "b:t:a"]
