"""metadata.json: valid documents are parsed, and messages name the place of an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partition_ops.artifacts.graph_schema import schema_of
from partition_ops.chunked.metadata import load_metadata, parse_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import open_store
from tests.graphs import library


def good() -> dict[str, Any]:
    return {
        "graph_name": "toy",
        "node_type": ["a", "b"],
        "num_nodes_per_chunk": [[2, 1], [4]],
        "edge_type": ["a:r:b", "b:s:b"],
        "num_edges_per_chunk": [[3, 2], [0]],
        "edges": {
            "a:r:b": {"format": {"name": "csv", "delimiter": " "}, "data": ["e/0.csv", "e/1.csv"]},
            "b:s:b": {"format": {"name": "parquet"}, "data": ["e/2.parquet"]},
        },
        "node_data": {"a": {"x": {"format": {"name": "numpy"}, "data": ["n/0.npy", "n/1.npy"]}}},
        "edge_data": {"a:r:b": {"w": {"format": {"name": "csv"}, "data": ["w/0.csv", "w/1.csv"]}}},
    }


def test_types_counts_and_files_are_parsed() -> None:
    metadata = parse_metadata(good(), where="m")
    assert metadata.node_types == ("a", "b")
    assert [edge_type.triple for edge_type in metadata.edge_types] == [("a", "r", "b"), ("b", "s", "b")]
    assert metadata.node_offsets == (0, 3, 7)
    assert metadata.edge_offsets == (0, 5, 5)
    assert metadata.files() == (
        *("e/0.csv", "e/1.csv", "e/2.parquet"),
        *("n/0.npy", "n/1.npy", "w/0.csv", "w/1.csv"),
    )
    assert [feature.key for feature in metadata.node_features] == ["a/x"]
    assert not metadata.is_homogeneous


def test_the_schema_lists_half_open_ranges_in_type_order() -> None:
    assert schema_of(parse_metadata(good(), where="m")) == {
        "nid": {"a": [0, 3], "b": [3, 7]},
        "eid": {"a:r:b": [0, 5], "b:s:b": [5, 5]},
    }


def test_counts_by_type_alone_are_enough() -> None:
    document = good()
    del document["num_nodes_per_chunk"], document["num_edges_per_chunk"]
    document |= {"num_nodes_per_type": [3, 4], "num_edges_per_type": [5, 0]}
    metadata = parse_metadata(document, where="m")
    assert metadata.num_nodes == (3, 4)
    assert metadata.num_edges_per_chunk == (None, None)


def test_an_absolute_path_below_the_root_is_relative_to_it() -> None:
    document = good()
    document["edges"]["b:s:b"]["data"] = ["/graphs/toy/e/2.parquet"]
    assert parse_metadata(document, where="m", root="/graphs/toy").edges[1].files == ("e/2.parquet",)


def test_a_graph_name_overrides_the_metadata(tmp_path: Path) -> None:
    library().write(tmp_path)
    assert load_metadata(open_store(str(tmp_path)), graph_name="mag").graph_name == "mag"
    with pytest.raises(UsageError, match=r"--graph-name: DGL cannot use the graph name.*'no good'"):
        load_metadata(open_store(str(tmp_path)), graph_name="no good")


Change = Callable[[dict[str, Any]], object]
BROKEN: dict[str, tuple[Change, str]] = {
    "no edge types": (lambda d: d.pop("edge_type"), "'edge_type' is a required property"),
    "a name that is no text": (lambda d: d.update(graph_name=3), "graph_name"),
    "a name that DGL cannot use": (lambda d: d.update(graph_name="a/b"), "'a/b'"),
    "a count below zero": (lambda d: d["num_nodes_per_chunk"][0].append(-1), r"num_nodes_per_chunk\[0\]"),
    "a count that is no integer": (lambda d: d["num_nodes_per_chunk"][0].append(1.5), "num_nodes_per_chunk"),
    "counts for fewer types": (lambda d: d["num_nodes_per_chunk"].pop(), "Found: 1 entries.*Expected: 2"),
    "no counts": (lambda d: d.pop("num_edges_per_chunk"), "num_edges_per_type"),
    "counts that contradict": (lambda d: d.update(num_nodes_per_type=[3, 5]), "sum to 4.*Expected: 5"),
    "an edge type that is not canonical": (
        lambda d: d.update(edge_type=["writes", "b:s:b"]),
        "'writes'.*src:rel:dst",
    ),
    "an unknown node type": (lambda d: d.update(edge_type=["a:r:c", "b:s:b"]), "unknown node type.*'c'"),
    "a type listed twice": (lambda d: d.update(node_type=["b", "b"]), "'b' is listed twice|unknown node"),
    "DGL's name of the only type": (
        lambda d: d.update(node_type=["a", "b", "_N"]),
        "reserves .*'_N'",
    ),
    "a type that is a path": (lambda d: d.update(node_type=["a", "b", "../x"]), r"'\.\./x'"),
    "an edge type without files": (lambda d: d["edges"].pop("b:s:b"), "no files for edge type 'b:s:b'"),
    "a format that is not read": (
        lambda d: d["edges"]["b:s:b"]["format"].update(name="orc"),
        "'orc'.*'csv', 'parquet'",
    ),
    "a delimiter of two characters": (
        lambda d: d["edges"]["a:r:b"]["format"].update(delimiter="::"),
        "one ASCII character",
    ),
    "a path that leaves the root": (
        lambda d: d["edges"]["b:s:b"].update(data=["../secret.parquet"]),
        "leaves the folder.*secret",
    ),
    "an absolute path": (lambda d: d["edges"]["b:s:b"].update(data=["/etc/passwd"]), "leaves the folder"),
    "another server": (lambda d: d["edges"]["b:s:b"].update(data=["s3://x/y"]), "leaves the folder"),
    "a feature of an unknown type": (lambda d: d["node_data"].update(z={}), "unknown type.*'z'"),
    "a feature with a slash": (
        lambda d: d["node_data"]["a"].update({"x/y": d["node_data"]["a"]["x"]}),
        "'x/y'",
    ),
    "a delimiter that is a digit": (
        lambda d: d["edges"]["a:r:b"]["format"].update(delimiter="1"),
        "'1'.*other than letters, digits",
    ),
    "a delimiter that is a NUL character": (
        lambda d: d["edges"]["a:r:b"]["format"].update(delimiter="\0"),
        "unsupported delimiter",
    ),
    "a feature with a line break": (
        lambda d: d["node_data"]["a"].update({"x\ny": d["node_data"]["a"]["x"]}),
        r"'x\\ny'.*printable",
    ),
    "half a character in a feature's name": (
        lambda d: d["node_data"]["a"].update({"\ud800": d["node_data"]["a"]["x"]}),
        r"'\\ud800'",
    ),
    "half a character in a path": (
        lambda d: d["edges"]["b:s:b"].update(data=["\ud800.parquet"]),
        r"file systems do not support.*ud800",
    ),
    "a path with a NUL character": (
        lambda d: d["edges"]["b:s:b"].update(data=["e\0.parquet"]),
        "file systems do not support",
    ),
    "a path that is too long": (
        lambda d: d["edges"]["b:s:b"].update(data=["x" * 256]),
        "file systems do not support.*255 bytes",
    ),
    "nothing but lists": (lambda d: d.update(node_type=[[[[]]]]), "node_type"),
    "a count that is infinite": (
        lambda d: d["num_nodes_per_chunk"][0].append(float("inf")),
        r"num_nodes_per_chunk\[0\]\[2\]",
    ),
    "a count that is true": (lambda d: d["num_nodes_per_chunk"][0].append(True), "num_nodes_per_chunk"),
    "files that are no list": (lambda d: d["edges"]["b:s:b"].update(data="e.csv"), "edges"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_metadata_is_rejected(name: str) -> None:
    change, words = BROKEN[name]
    document = good()
    change(document)
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_metadata(document, where="graphs/toy/metadata.json")
    assert "graphs/toy/metadata.json" in str(caught.value)
    assert caught.value.exit_code == 3
    assert not caught.value.transient


def test_a_count_may_be_written_with_a_point() -> None:
    """JSON does not distinguish integers: 3.0 is an integer for JSON Schema."""
    metadata = parse_metadata(good() | {"num_nodes_per_chunk": [[2.0, 1.0], [4.0]]}, where="m")
    assert [type(count) for count in metadata.num_nodes] == [int, int]
    assert metadata.num_nodes_per_chunk[0] == (2, 1)


def test_a_name_twice_in_an_object_is_refused(tmp_path: Path) -> None:
    """Most parsers silently use the last of them, so that a feature would be lost."""
    text = json.dumps(good()).replace('"x": {', '"x": {}, "x": {')
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(InvalidInputError, match="has the name 'x' twice"):
        load_metadata(open_store(str(tmp_path)))


@pytest.mark.parametrize("depth", range(700, 1000, 20))
def test_deep_nesting_is_rejected(tmp_path: Path, depth: int) -> None:
    text = json.dumps(good()).replace('"node_type": [', f'"node_type": [{"[" * depth}{"]" * depth}, ')
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"metadata\.json"):
        load_metadata(open_store(str(tmp_path)))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "{}", "\x00\xff", "[" * 100_000])
def test_documents_that_are_not_metadata_are_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"metadata\.json"):
        load_metadata(open_store(str(tmp_path)))


def test_a_missing_metadata_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"no file .*metadata\.json"):
        load_metadata(open_store(str(tmp_path)))


def test_counts_beyond_64_bits_are_refused() -> None:
    document = good() | {"num_nodes_per_chunk": [[2**63], [4]]}
    with pytest.raises(InvalidInputError, match="num_nodes_per_chunk"):
        parse_metadata(json.loads(json.dumps(document)), where="m")
