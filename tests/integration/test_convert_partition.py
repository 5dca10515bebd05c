"""From ParMETIS's text to DGL's files: what DGL loads is the input graph, and bad text is refused."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.convert_partition import convert_parmetis
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from tests.e2e.guide import blocks_of
from tests.graphs import SHAPES, Edges, SmallGraph, library, social
from tests.pages import commands_to_run
from tests.parmetis import ParmetisOutput, offsets, parmetis_output, pm_dglpart, schema
from tests.uploads import upload_folder


def convert(output: ParmetisOutput, folder: Path, *, plain: bool = False, **options: Any) -> Path:
    """Write the text and convert it."""
    config = ConvertPartitionConfig(
        graph_name=output.graph.name,
        num_parts=len(output.nodes),
        num_node_weights=len(output.graph.nodes),
        **options,
    )
    source = open_store(str(output.write(folder / "text")))
    convert_parmetis(config, source, schema(output.graph, plain=plain), open_store(str(folder / "out")))
    return folder / "out" / f"{output.graph.name}.json"


def loaded(config: Path, part: int) -> Any:
    return import_dgl().distributed.load_partition(str(config), part)


def check(output: ParmetisOutput, config: Path, *, attributes: bool = False) -> None:
    """DGL finds every node and edge once, with the new ID that ParMETIS gave and the right ends."""
    graph, begins = output.graph, offsets(output.graph)
    edges = []
    edge_ids = []
    for part in range(len(output.nodes)):
        local, node_feats, edge_feats, book, _, node_types, edge_types = loaded(config, part)
        old = np.concatenate([np.empty(0, np.int64), *_old_ids(output, local, begins, node_types)])
        inner = local.ndata["inner_node"].bool().numpy()
        assert np.array_equal(output.new_ids[old], local.ndata["_ID"].numpy())
        assert np.array_equal(np.sort(old[inner]), np.flatnonzero(output.parts == part))
        src, dst = (ends.numpy() for ends in local.edges())
        assert inner[dst].all()
        assert set(np.flatnonzero(~inner)) <= set(src)
        types = local.edata["_TYPE"].numpy() if len(edge_types) > 1 or len(node_types) > 1 else 0 * src
        edges += list(zip(old[src], old[dst], local.edata["orig_id"].numpy(), types, strict=True))
        edge_ids += local.edata["_ID"].tolist()
        assert np.array_equal(book.nid2partid(local.ndata["_ID"]).numpy(), output.parts[old])
        if attributes:
            _check_attributes(local, node_feats, edge_feats, old, inner)
    assert sorted(edges, key=lambda edge: (edge[3], edge[2])) == _input_edges(graph, begins)
    assert edge_ids == list(range(len(edges)))


def _old_ids(output: ParmetisOutput, local: Any, begins: dict[str, int], node_types: Any) -> Any:
    types = local.ndata["_TYPE"].tolist() if "_TYPE" in local.ndata else [0] * local.num_nodes()
    starts = np.array(list(begins.values()))
    assert list(node_types) == list(begins) and min(types, default=0) >= 0
    yield starts[types] + local.ndata["orig_id"].numpy()


def _check_attributes(
    local: Any, node_feats: Any, edge_feats: Any, old: np.ndarray, inner: np.ndarray
) -> None:
    rows = np.concatenate([values.numpy() for values in node_feats.values()])
    assert rows.dtype == np.float32
    assert np.array_equal(rows, np.stack([old[inner], old[inner] + 0.25], axis=1))
    rows = np.concatenate([values.numpy() for values in edge_feats.values()])
    first = local.edata["orig_id"].numpy() * 10 + local.edata["_TYPE"].numpy()
    assert rows.dtype == np.int16
    assert np.array_equal(rows, np.stack([first, first + 1], axis=1))


def _input_edges(graph: SmallGraph, begins: dict[str, int]) -> list[tuple[int, ...]]:
    return [
        (a + begins[name.split(":")[0]], b + begins[name.split(":")[2]], edge, type_id)
        for type_id, (name, edges) in enumerate(graph.edges.items())
        for edge, (a, b) in enumerate(zip(edges.src, edges.dst, strict=True))
    ]


@pytest.mark.parametrize("digits", ["", "03d"])
@pytest.mark.parametrize("num_parts", [1, 3])
def test_heterogeneous_graph(tmp_path: Path, num_parts: int, digits: str) -> None:
    output = parmetis_output(library(), num_parts)
    output.digits = digits
    check(output, convert(output, tmp_path))


def test_homogeneous_graph(tmp_path: Path) -> None:
    output = parmetis_output(social(), 2)
    check(output, convert(output, tmp_path))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_of_awkward_shape(shape: str, tmp_path: Path) -> None:
    output = parmetis_output(SHAPES[shape], 3)
    check(output, convert(output, tmp_path))


def test_the_files_are_those_of_the_guide(tmp_path: Path) -> None:
    config = convert(parmetis_output(library(), 2), tmp_path)
    names = {"graph.dgl", "node_feat.dgl", "edge_feat.dgl", "orig_nids.dgl", "orig_eids.dgl"}
    for part in ("part0", "part1"):
        assert {path.name for path in (config.parent / part).iterdir()} == names
    document = json.loads(config.read_text())
    assert document["part-1"]["part_graph"] == "part1/graph.dgl"


def test_plain_edge_types_get_the_node_types_of_their_edges(tmp_path: Path) -> None:
    output = parmetis_output(library(), 2)
    config = convert(output, tmp_path, plain=True)
    assert list(json.loads(config.read_text())["etypes"]) == list(library().edges)
    check(output, config)


def test_a_plain_edge_type_without_edges_is_refused(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 3, "b": 3}, {"a:r:b": Edges([0], [1]), "a:s:b": Edges([], [])})
    with pytest.raises(InvalidInputError, match=r"'s' has no edges.*src:rel:dst"):
        convert(parmetis_output(graph, 2), tmp_path, plain=True)


def test_a_plain_edge_type_without_edges_is_clear_where_there_is_one_node_type(tmp_path: Path) -> None:
    output = parmetis_output(SHAPES["an edge type without edges"], 2)
    check(output, convert(output, tmp_path, plain=True))


def test_attributes_become_features(tmp_path: Path) -> None:
    output = parmetis_output(library(), 3, attributes=2)
    config = convert(output, tmp_path, node_attr_dtype="torch.float32", edge_attr_dtype="int16")
    check(output, config, attributes=True)
    _, node_feats, edge_feats, *_ = loaded(config, 0)
    assert set(node_feats) == {f"{name}/feat" for name in library().nodes}
    assert set(edge_feats) == {f"{name}/feat" for name in library().edges}


def test_attributes_are_passed_over_without_a_dtype(tmp_path: Path) -> None:
    output = parmetis_output(library(), 2, attributes=2)
    output.nodes[0] = [row[:6] if row[1] == 0 else row for row in output.nodes[0]]  # not all have as many
    check(output, convert(output, tmp_path))


def test_removed_edges_come_back_with_their_attributes(tmp_path: Path) -> None:
    graph = SmallGraph(
        {"a": 5, "b": 3},
        {"a:r:a": Edges([0, 0, 1, 2, 0], [1, 1, 1, 3, 1]), "a:r:b": Edges([4, 4, 0], [2, 2, 0])},
    )
    output = parmetis_output(graph, 2, attributes=2)
    assert len(output.removed) == 4
    config = convert(output, tmp_path, node_attr_dtype="float32", edge_attr_dtype="int16")
    check(output, config, attributes=True)


def test_any_white_space_will_do(tmp_path: Path) -> None:
    output = parmetis_output(library(), 2, attributes=2)
    config = convert(output, tmp_path)
    for path in (tmp_path / "text").glob("p1-*"):
        lines = path.read_text().splitlines()
        half = len(lines) // 2
        odd = ["  " + line.replace(" ", " \t", 3) + " " for line in lines[half:]]
        path.write_text("\n".join([*lines[:half], "", *odd]) + "\r\n\n")
    before = config.read_bytes()
    output.write = lambda folder: folder  # type: ignore[method-assign]
    options = {"node_attr_dtype": "float32", "edge_attr_dtype": "int16"}
    assert convert(output, tmp_path, **options).read_bytes() == before
    check(output, config, attributes=True)


def _run_the_guide(folder: Path) -> None:
    """The commands and the code of the guide, as they stand there, in a folder with the graph of ``_mag``."""
    page = Path(__file__).parents[2] / "docs" / "parmetis.md"
    commands = [shlex.split(line) for line in commands_to_run(page) if "--engine parmetis" not in line]
    assert [words[:2] for words in commands[:2]] == [
        ["partition-ops", "schema"],
        ["partition-ops", "prepare"],
    ]
    for words in commands:
        if words[0] == "partition-ops":
            assert main(words[1:]) == 0
        else:
            assert words[-4:] == ["partition-ops", "pm-dglpart", "mag", "2)"]
            pm_dglpart(folder / "out" / "prepare", "mag", 4)
    (code,) = (block.text for block in blocks_of(page) if block.language == "python")
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)
    assert set(names["ntypes"]) == {"author", "paper", "venue"} and names["part"].num_nodes()


def test_the_guide_goes_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = replace(library(), name="mag")
    cites = graph.edges["paper:cites:paper"]
    doubled = Edges([*cites.src, *cites.src[:5], 3], [*cites.dst, *cites.dst[:5], 3])
    graph = replace(graph, edges={**graph.edges, "paper:cites:paper": doubled}, edge_values=[])
    graph.write(tmp_path / "graphs" / "mag")
    _run_the_guide(tmp_path)
    assert len((tmp_path / "out/prepare/mag_removed_edges.txt").read_text().splitlines()) == 6
    output = pm_dglpart(tmp_path / "out" / "prepare", "mag", 4)
    check(replace(output, graph=graph), tmp_path / "out" / "dgl" / "mag.json")


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_prepared_text_goes_round(shape: str, num_parts: int, tmp_path: Path) -> None:
    graph = SHAPES[shape]
    source = open_store(str(graph.write(tmp_path / "input")))
    target = open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(format="parmetis"), source, target)
    output = pm_dglpart(tmp_path / "out" / "prepare", "small", num_parts)
    config = ConvertPartitionConfig(
        graph_name="small", num_parts=num_parts, num_node_weights=len(graph.nodes)
    )
    convert_parmetis(config, target.child("prepare"), schema(graph), target.child("dgl"))
    check(replace(output, graph=graph), tmp_path / "out" / "dgl" / "small.json")


def test_missing_edges_are_refused_or_accepted(tmp_path: Path) -> None:
    output = parmetis_output(library(), 2)
    lost = output.edges[1].pop()
    with pytest.raises(InvalidInputError, match=f"1 edges of the schema.*no edge {lost[4]} of type"):
        convert(output, tmp_path)
    assert not (tmp_path / "out" / "small.json").exists()
    config = convert(output, tmp_path, missing_edges="accept")
    total = sum(len(edges.src) for edges in library().edges.values())
    assert sum(loaded(config, part)[0].num_edges() for part in range(2)) == total - 1
    assert json.loads(config.read_text())["num_edges"] == total - 1


Change = Callable[[ParmetisOutput], None]


def _set(kind: str, row: int, column: int, value: object) -> Change:
    def change(output: ParmetisOutput) -> None:
        rows = getattr(output, kind)[1]
        rows[row] = (*rows[row][:column], value, *rows[row][column + 1 :])

    return change


def _append(kind: str, row: Callable[[ParmetisOutput], tuple[object, ...]]) -> Change:
    return lambda output: getattr(output, kind)[1].append(row(output))


MALFORMED: dict[str, tuple[Change, str]] = {
    "a word for a number": (
        _set("nodes", 4, 1, "x"),
        r"p1-small_nodes.txt, line 5: <node_type> is not int64",
    ),
    "a fraction for an ID": (_set("edges", 2, 4, "1.5"), r"p1-small_edges.txt, line 3: <orig_type_edge_id>"),
    "a number beyond 64 bits": (_set("edges", 2, 0, 2**70), r"edges.txt, line 3: <src_id> is not int64"),
    "a short node row": (
        lambda output: output.nodes[1].insert(3, (1, 2)),
        r"nodes.txt, line 4: the row has 2 fields and not at least 6",
    ),
    "a short edge row": (
        lambda output: output.edges[1].insert(0, (1, 2, 3)),
        r"edges.txt, line 1: the row has 3 fields and not at least 6",
    ),
    "an unknown node type": (_set("nodes", 1, 1, 3), r"nodes.txt, line 2: there is no such node type"),
    "a node beyond its type": (_set("nodes", 1, 5, 40), r"nodes.txt, line 2: the original ID is outside"),
    "a negative node": (_set("nodes", 1, 5, -1), r"nodes.txt, line 2: the original ID is outside"),
    "a new ID out of range": (_set("nodes", 0, 0, 65), r"nodes.txt, line 1: the new ID is out of range"),
    "a node twice": (
        _append("nodes", lambda output: output.nodes[0][0]),
        r"nodes.txt, line \d+: the node, or its new ID, occurs twice",
    ),
    "a row twice": (
        _append("nodes", lambda output: output.nodes[1][0]),
        r"nodes.txt, line \d+: the node, or its new ID, occurs twice",
    ),
    "a node missing": (lambda output: output.nodes[1].pop() and None, r"not contiguous|in no partition"),
    "an unknown edge type": (_set("edges", 5, 5, 3), r"edges.txt, line 6: there is no such edge type"),
    "an edge beyond its type": (_set("edges", 5, 4, 10**6), r"line 6: the edge ID is outside the range"),
    "a source of another type": (
        lambda output: _swap_ends(output),
        r"edges.txt, line 1: the (source|destination) of the edge is not a node of the type",
    ),
    "another new source": (_set("edges", 0, 0, -7), r"line 1: <src_id> and <orig_src_id> contradict"),
    "an edge twice": (
        _append("edges", lambda output: output.edges[1][3]),
        r"edges.txt, line \d+: the edge occurs twice",
    ),
    "an edge in another partition": (
        lambda output: output.edges[0].insert(0, output.edges[1].pop()),
        r"p0-small_edges.txt, line 1: the edge is in the file of partition 0, but its destination is not",
    ),
    "bytes that are no text": (_set("edges", 1, 1, "\x00é"), r"edges.txt, line 2: <dst_id> is not int64"),
}


def _swap_ends(output: ParmetisOutput) -> None:
    rows = output.edges[1]
    index = next(i for i, row in enumerate(rows) if row[5] == 0)
    a, b, c, d, *rest = rows.pop(index)
    rows.insert(0, (b, a, d, c, *rest))


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_text_is_refused_with_file_and_line(case: str, tmp_path: Path) -> None:
    change, message = MALFORMED[case]
    output = parmetis_output(library(), 2)
    change(output)
    with pytest.raises(InvalidInputError, match=message):
        convert(output, tmp_path)
    assert not list((tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize("width", [0, 3])
def test_attributes_in_other_numbers_are_refused(tmp_path: Path, width: int) -> None:
    output = parmetis_output(library(), 2, attributes=2)
    output.nodes[1][3] = (*output.nodes[1][3][:6], *[0.5] * width)
    with pytest.raises(InvalidInputError, match=rf"line 4: the row has {6 + width} fields and not 8"):
        convert(output, tmp_path, node_attr_dtype="float32")


def test_types_that_are_not_contiguous_are_refused(tmp_path: Path) -> None:
    output = parmetis_output(library(), 1)
    rows = sorted(output.nodes[0])
    rows[0], rows[-1] = (rows[-1][0], *rows[0][1:]), (rows[0][0], *rows[-1][1:])
    output.nodes[0] = rows
    with pytest.raises(InvalidInputError, match="no contiguous new IDs, in the order of the types"):
        convert(output, tmp_path)


def _arguments(folder: Path, **changed: str) -> list[str]:
    values = {
        "--input-dir": str(folder / "text"),
        "--graph-name": "small",
        "--schema": str(folder / "schema.json"),
        "--num-parts": "2",
        "--num-node-weights": "3",
        "--output": str(folder / "out"),
    }
    values |= {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return ["convert-partition", *(word for pair in values.items() for word in pair)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    parmetis_output(library(), 2).write(tmp_path / "text")
    (tmp_path / "schema.json").write_text(json.dumps(schema(library())))
    return tmp_path


def test_command(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tempfile.gettempdir()
    assert main([*_arguments(written, workspace=str(written / "w")), "--json"]) == 0
    assert tempfile.gettempdir() == before
    assert json.loads(capsys.readouterr().out)["counters"]["num_parts"] == 2
    check(parmetis_output(library(), 2), written / "out/small.json")


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"num_parts": "0"}, 2, "--num-parts is out of range"),
        ({"num_parts": "3"}, 3, "The partition 2 has no files"),
        ({"num_parts": "1"}, 3, "more partitions"),
        ({"num_node_weights": "2"}, 3, "line 1"),
        ({"node_attr_dtype": "string"}, 2, "--node-attr-dtype is not a dtype"),
        ({"node_attr_dtype": "float32"}, 3, "at least 1, since a dtype is given"),
        ({"schema": "nowhere.json"}, 3, "nowhere.json"),
        ({"schema": "s3://bucket"}, 2, "--schema names no file"),
        ({"graph_name": "a b"}, 3, "graph name"),
        ({"input_dir": "nowhere"}, 3, "p0-small_nodes.txt"),
        ({"missing_edges": "fail", "workspace": "s3://a/b"}, 2, "no local folder"),
    ],
)
def test_wrong_arguments(
    written: Path, changed: dict[str, str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_arguments(written, **changed)) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed


def test_from_s3_to_s3(
    written: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(s3_settings.endpoint_url))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(s3_settings.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(s3_settings.secret_key))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with open_store(s3_root, s3_settings) as store:
        upload_folder(written / "text", store.child("text"))
        store.write_json("schema.json", schema(library()))
        places = {
            "input_dir": f"{s3_root}/text",
            "schema": f"{s3_root}/schema.json",
            "output": f"{s3_root}/out",
        }
        assert main(_arguments(written, **places)) == 0
        for entry in store.list("out/"):
            path = tmp_path / "fetched" / entry.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.read_bytes(entry.key))
    check(parmetis_output(library(), 2), tmp_path / "fetched/out/small.json")


def test_the_text_is_written_to_object_storage(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    graph = library()
    local = graph.write(tmp_path / "input")
    with open_store(f"{s3_root}/input", s3_settings) as store:
        upload_folder(local, store)
    expected = open_store(str(tmp_path / "local"))
    prepare_graph(PrepareConfig(format="parmetis"), open_store(str(local)), expected)
    with open_store(s3_root, s3_settings) as source, open_store(f"{s3_root}/out", s3_settings) as output:
        prepare_graph(PrepareConfig(format="parmetis"), source.child("input"), output)
        names = ("nodes", "edges", "stats", "removed_edges")
        for key in (f"prepare/small_{name}.txt" for name in names):
            assert output.read_bytes(key) == expected.read_bytes(key)
