"""ParMETIS's text against a schema: each wrong line is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts.graph_schema import schema_of
from partition_ops.chunked.metadata import load_metadata
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.validate_text import validate_parmetis_text
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from tests.graphs import library

SCHEMA = {"nid": {"a": [0, 3], "b": [3, 7]}, "eid": {"r": [0, 2], "s": [2, 3]}}
NODES = ["0 1 0 0", "0 1 0 1", "0 1 0 2", "1 0 1 0", "1 0 1 1", "1 0 1 2", "1 0 1 3"]
EDGES = ["0 3 0 0", "1 4 1 0", "5 6 0 1"]


def write(folder: Path, nodes: list[str], edges: list[str], stats: str = "7 3 2") -> Path:
    for name, lines in (("nodes", nodes), ("edges", edges), ("stats", [stats])):
        (folder / f"toy_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_the_guides_example_is_sound(tmp_path: Path) -> None:
    store = open_store(str(write(tmp_path, NODES, EDGES)))
    assert validate_parmetis_text(store, "toy", SCHEMA) == {"nodes": 7, "edges": 3, "node_weights": 2}


def test_what_prepare_writes_is_sound(tmp_path: Path) -> None:
    source, out = open_store(str(library().write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(format="parmetis"), source, out)
    counts = validate_parmetis_text(out.child("prepare"), "small", schema_of(load_metadata(source)))
    assert counts["nodes"] == 65


def test_the_reverse_of_an_edge_is_no_duplicate(tmp_path: Path) -> None:
    edges = ["0 3 0 0", "1 4 1 0", "3 0 0 1"]
    validate_parmetis_text(open_store(str(write(tmp_path, NODES, edges))), "toy", SCHEMA)


def change(lines: list[str], row: int, text: str) -> list[str]:
    return [*lines[:row], text, *lines[row + 1 :]]


WRONG = {
    "a type that is not the schema's": (
        change(NODES, 2, "1 0 1 0"),
        EDGES,
        r"nodes\.txt, line 3: the node type",
    ),
    "types that are not grouped": (
        [*NODES[:2], NODES[3], NODES[2], *NODES[4:]],
        EDGES,
        r"line 3: the node type.*not grouped.*node type 0 for homogeneous ID 2",
    ),
    "a gap in the type-wise IDs": (
        change(NODES, 5, "1 0 1 4"),
        EDGES,
        r"line 6: .*without a gap.*<orig_type_node_id> 2",
    ),
    "a node too many": ([*NODES, "1 0 1 4"], EDGES, r"line 8: the node type"),
    "a node too few": (NODES[:-1], EDGES, r"nodes\.txt has another number.*schema: 6; expected 7"),
    "an end that is no node": (
        NODES,
        change(EDGES, 1, "1 7 1 0"),
        r"edges\.txt, line 2: <dst_id> is not a node.*0 to 6",
    ),
    "an end below zero": (NODES, change(EDGES, 1, "-1 4 1 0"), r"line 2: <src_id> is not a node"),
    "a self-loop": (NODES, change(EDGES, 1, "4 4 1 0"), r"line 2: a self-loop"),
    "a duplicate": (NODES, change(EDGES, 1, "0 3 1 0"), r"line 2: .*occurs twice.*also in line 1"),
    "a duplicate of another edge type": (
        NODES,
        ["0 3 0 0", "1 4 1 0", "0 3 0 1"],
        r"line 3: .*occurs twice.*0 3, also in line 1; 1 such rows.*whatever the edge type",
    ),
    "an edge type that is not in the schema": (NODES, change(EDGES, 0, "0 3 0 2"), r"line 1: the edge type"),
    "a type-wise edge ID out of range": (
        NODES,
        change(EDGES, 2, "5 6 1 1"),
        r"line 3: <type_edge_id>.*0 to 0",
    ),
    "an edge too few": (NODES, EDGES[:2], r"edges\.txt has another number.*Found: 2.*Expected: 3"),
    "a word": (NODES, change(EDGES, 0, "0 x 0 0"), r"edges\.txt, line 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_named(tmp_path: Path, name: str) -> None:
    nodes, edges, words = WRONG[name]
    with pytest.raises(InvalidInputError, match=words):
        validate_parmetis_text(open_store(str(write(tmp_path, nodes, edges))), "toy", SCHEMA)


def test_stats_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"stats\.txt, line 1.*'7 3'"):
        validate_parmetis_text(open_store(str(write(tmp_path, NODES, EDGES, "7 3"))), "toy", SCHEMA)


def test_the_command_line_checks_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, NODES, EDGES)
    open_store(str(tmp_path)).write_json("toy.json", SCHEMA)
    assert main(["validate", str(tmp_path), "--parmetis", "toy", "--schema", f"{tmp_path}/toy.json"]) == 0
    assert "toy is valid: nodes 7, edges 3" in capsys.readouterr().out
    assert main(["validate", str(tmp_path), "--parmetis", "toy"]) == 0
    assert main(["validate", str(tmp_path), "--schema", f"{tmp_path}/toy.json"]) == 2


SEVERAL = (
    change(change(NODES, 1, "0 1 0 7"), 5, "0 0 1 2"),
    ["0 3 0 0", "4 4 1 0", "9 4 1 0", "0 3 5 1", "3 4 1 0", "1 x 9 0"],
)


def test_all_findings_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, *SEVERAL)
    assert main(["validate", str(tmp_path), "--parmetis", "toy"]) == 3
    said = capsys.readouterr().err
    assert "has 3 findings" in said
    for words in (
        "toy_nodes.txt, line 2: the type-wise IDs of a type do not run",
        "toy_nodes.txt, line 6: the nodes of a type are not grouped",
        "toy_edges.txt, line 6: <dst_id> is not int64 but 'x'",
    ):
        assert words in said
    write(tmp_path, NODES, [*SEVERAL[1][:-1], "1 4 9 0"])
    assert main(["validate", str(tmp_path), "--parmetis", "toy"]) == 3
    said = capsys.readouterr().err
    for words in (
        "has 5 findings",
        "line 2: a self-loop",
        "line 3: <src_id> is not a node",
        "line 5: the edge joins other node types than its edge type",
        "expected a source of node type 0 and a destination of node type 1",
        "another number of rows than there are edges of the stats file",
        "line 4: an edge occurs twice, which ParMETIS fails on: 0 3, also in line 1",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("types that are not grouped", r"line 4: the nodes of a type are not grouped"),
        ("a gap in the type-wise IDs", r"line 6: .*without a gap.*<orig_type_node_id> 2"),
        ("a node too few", r"nodes\.txt has another number.*Found: 6.*Expected: 7"),
        ("an end that is no node", r"edges\.txt, line 2: <dst_id> is not a node.*0 to 6"),
        ("a self-loop", r"line 2: a self-loop"),
        ("a duplicate of another edge type", r"line 3: .*occurs twice.*0 3, also in line 1"),
        ("a word", r"edges\.txt, line 1"),
    ],
)
def test_without_a_schema_a_wrong_line_is_named(tmp_path: Path, name: str, words: str) -> None:
    nodes, edges, _ = WRONG[name]
    with pytest.raises(InvalidInputError, match=words):
        validate_parmetis_text(open_store(str(write(tmp_path, nodes, edges))), "toy")


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_an_edge_id_twice_is_found(tmp_path: Path, schema: dict[str, dict[str, list[int]]] | None) -> None:
    edges = change(EDGES, 1, "1 4 0 0")
    with pytest.raises(
        InvalidInputError, match=r"line 2: two edges of a type have the same ID.*also in line 1"
    ):
        validate_parmetis_text(open_store(str(write(tmp_path, NODES, edges))), "toy", schema)


def test_the_ends_of_a_canonical_type_are_checked(tmp_path: Path) -> None:
    schema = {"nid": SCHEMA["nid"], "eid": {"a:r:a": [0, 2], "s": [2, 3]}}
    with pytest.raises(
        InvalidInputError, match=r"line 1: the edge joins other node types.*2 such rows in all"
    ):
        validate_parmetis_text(open_store(str(write(tmp_path, NODES, EDGES))), "toy", schema)
