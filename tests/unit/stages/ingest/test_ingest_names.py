"""Paths, columns and values that a library could take for others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.patterns import escaped, folder_of, matches
from tests.tables import edges, feature, ingest, keys

FOLDERS = ["a[bc]d", "a*d", "a?d", "[", "**", "a]d", "a\\d", "a=1", "{a,b}", "x%20y", "it's", "a[!b]"]
GRAPH = """\
graph_name: g
nodes:
  u: {{table: {nodes}, key: {key}, features: {{{features}}}{more}}}
edges:
  u:r:u: {{table: {edges}, src: s, dst: d{edge_features}}}
"""
Write = Callable[[Path, list[dict[str, Any]]], str]


def write_graph(
    folder: Path,
    nodes: str,
    *,
    key: str = "id",
    features: str = "x: ",
    more: str = "",
    edges: str = "e.csv",
    edge_features: str = "",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = GRAPH.format(
        nodes=nodes, key=key, features=features, more=more, edges=edges, edge_features=edge_features
    )
    (folder / "graph.yaml").write_text(text)
    return folder


def write_tables(folder: Path, values: list[int], suffix: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": str(index), "x": value} for index, value in enumerate(values)]
    if suffix == "csv":
        lines = ["id,x", *(f"{row['id']},{row['x']}" for row in rows)]
        (folder / "u.csv").write_text("\n".join(lines) + "\n")
    elif suffix == "jsonl":
        (folder / "u.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), folder / "u.parquet")
    (folder / "e.csv").write_text("s,d\n0,1\n")
    return folder


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", FOLDERS)
def test_only_graph_yaml_writes_patterns(name: str, suffix: str, tmp_path: Path) -> None:
    """The folder of graph.yaml is no pattern, whatever its name is."""
    write_tables(tmp_path / "abd", [7, 8, 9], suffix)
    folder = write_tables(tmp_path / name, [1, 2], suffix)
    for place, table in (("", f"u.{suffix}"), ("deeper", f"../u.{suffix}")):
        write_graph(folder / place, table, edges=f"{'../' if place else ''}e.csv")
        ingest(folder / place, tmp_path / f"graph{place}")
        assert feature(tmp_path / f"graph{place}", "u", "x").tolist() == [1, 2]


def test_temporary_folders_are_no_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t[mn]p*"))
    (tmp_path / "t[mn]p*").mkdir()
    write_graph(write_tables(tmp_path / "in", [1, 2], "csv"), "u.csv")
    ingest(tmp_path / "in", tmp_path / "graph")
    assert feature(tmp_path / "graph", "u", "x").tolist() == [1, 2]


def test_a_path_that_cannot_be_escaped_is_rejected(tmp_path: Path) -> None:
    write_graph(write_tables(tmp_path / "a[b\\]", [1, 2], "csv"), "u.csv")
    with pytest.raises(InvalidInputError, match="backslash"):
        ingest(tmp_path / "a[b\\]", tmp_path / "graph")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("u/*.csv", ["u/a.csv", "u/[.csv"]),
        ("u/**/*.csv", ["u/a.csv", "u/b/c.csv", "u/[.csv"]),
        ("u/**", ["u/a.csv", "u/b/c.csv", "u/[.csv", "u/b/c.tsv"]),
        ("u/[a-f].csv", ["u/a.csv"]),
        ("u/[!b-z].csv", ["u/a.csv", "u/[.csv"]),
        ("u/[[].csv", ["u/[.csv"]),
        ("u?a.csv", []),
        ("*/b/c.?sv", ["u/b/c.csv", "u/b/c.tsv"]),
        ("u[!x]a.csv", []),
        (escaped("u/[.csv"), ["u/[.csv"]),
    ],
)
def test_patterns(pattern: str, expected: list[str]) -> None:
    keys = ["u/a.csv", "u/b/c.csv", "u/[.csv", "u/b/c.tsv", "v.csv"]
    assert matches(pattern, keys, "table") == expected
    assert all(key.startswith(folder_of(pattern)) for key in expected)


@pytest.mark.parametrize("pattern", ["**/" * 3000 + "*.csv", "*a" * 500 + "b", "**a" * 300 + "b"])
def test_patterns_take_linear_time(pattern: str) -> None:
    began = time.process_time()
    matches(pattern, ["a" * 2000 + "/" + "a/" * 1000 + f"{i}.csv" for i in range(20)], "table")
    assert time.process_time() - began < 20


@pytest.mark.parametrize("pattern", ["[z-a]*.csv", "u[!].csv*" * 100_000])
def test_invalid_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a valid pattern"):
        matches(pattern, ["u.csv"], "table")


def test_a_file_whose_name_is_no_text_is_not_left_out(tmp_path: Path) -> None:
    keys = [b"u\xff.csv".decode(errors="surrogateescape"), "v.csv"]
    assert matches("v*.csv", keys, "table") == ["v.csv"]
    with pytest.raises(InvalidInputError, match="not text in UTF-8"):
        matches("*.csv", keys, "table")


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), folder / "u.parquet")
    return "u.parquet"


def as_csv(folder: Path, rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    (folder / "u.csv").write_text("\n".join(lines) + "\n")
    return "{path: u.csv, types: {id: int64}}"


def as_json_lines(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "u.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "u.jsonl"


TWINS = [{"ID": 5, "id": 1, "X": 7, "x": 3}, {"ID": 6, "id": 2, "X": 7, "x": 4}]


def write_edges(folder: Path) -> None:
    folder.mkdir()
    (folder / "e.csv").write_text("s,d\n1,2\n")


def test_columns_of_parquet_that_differ_in_case_are_told_apart(tmp_path: Path) -> None:
    write_edges(tmp_path / "in")
    for name in ("x", "X"):
        write_graph(tmp_path / "in", as_parquet(tmp_path / "in", TWINS), features=f"{name}: ")
        ingest(tmp_path / "in", tmp_path / name)
        assert feature(tmp_path / name, "u", name).tolist() == [row[name] for row in TWINS]
        assert keys(tmp_path / name, "u") == ["1", "2"]
    write_graph(tmp_path / "in", "u.parquet", features="x: , X: ")
    with pytest.raises(InvalidInputError, match="cannot be told apart"):
        ingest(tmp_path / "in", tmp_path / "both")


@pytest.mark.parametrize("write", [as_csv, as_json_lines])
def test_columns_of_text_that_differ_in_case_are_rejected(write: Write, tmp_path: Path) -> None:
    write_edges(tmp_path / "in")
    write_graph(tmp_path / "in", write(tmp_path / "in", TWINS))
    with pytest.raises(InvalidInputError, match="cannot be told apart"):
        ingest(tmp_path / "in", tmp_path / "graph")
    rows = [{"id": 1, "y": 0, "Y": 0, "x": 3}, {"id": 2, "y": 0, "Y": 0, "x": 4}]
    write_graph(tmp_path / "in", write(tmp_path / "in", rows))
    ingest(tmp_path / "in", tmp_path / "graph")
    assert feature(tmp_path / "graph", "u", "x").tolist() == [3, 4], "others do not matter"


def test_a_column_whose_name_duckdb_gives_to_another_one_is_rejected(tmp_path: Path) -> None:
    write_edges(tmp_path / "in")
    rows = [{"id": 1, "X": 0, "x": 5, "x_1": 3}, {"id": 2, "X": 0, "x": 6, "x_1": 4}]
    write_graph(tmp_path / "in", as_csv(tmp_path / "in", rows), features="x_1: ")
    with pytest.raises(InvalidInputError, match="cannot be told apart"):
        ingest(tmp_path / "in", tmp_path / "graph")


@pytest.mark.parametrize("used", [False, True])
def test_a_column_that_is_twice_in_a_file(used: bool, tmp_path: Path) -> None:
    write_edges(tmp_path / "in")
    table = pa.table([pa.array([1, 2])] * 4, names=["id", "x", "y", "y"])
    pq.write_table(table, tmp_path / "in/u.parquet")
    write_graph(tmp_path / "in", "u.parquet", features="y: " if used else "x: ")
    if used:
        with pytest.raises(InvalidInputError, match="cannot be told apart"):
            ingest(tmp_path / "in", tmp_path / "graph")
    else:
        ingest(tmp_path / "in", tmp_path / "graph")


def test_a_column_of_the_name_that_duckdb_gives_to_rows(tmp_path: Path) -> None:
    """The order of rows would be that of the column."""
    write_edges(tmp_path / "in")
    rows = [{"id": 1, "x": 3, "file_row_number": 1}, {"id": 2, "x": 4, "file_row_number": 0}]
    write_graph(tmp_path / "in", as_parquet(tmp_path / "in", rows))
    ingest(tmp_path / "in", tmp_path / "graph")
    assert feature(tmp_path / "graph", "u", "x").tolist() == [3, 4]
    write_graph(tmp_path / "in", "u.parquet", features="file_row_number: ")
    with pytest.raises(InvalidInputError, match=r"'file_row_number' .* cannot be used"):
        ingest(tmp_path / "in", tmp_path / "graph")


def test_a_text_called_orig_id_is_rejected(tmp_path: Path) -> None:
    """The file of a text has such a column itself."""
    write_edges(tmp_path / "in")
    rows = [{"id": 1, "orig_id": "a"}, {"id": 2, "orig_id": "b"}]
    write_graph(tmp_path / "in", as_csv(tmp_path / "in", rows), features="id: ", more=", text: [orig_id]")
    with pytest.raises(InvalidInputError, match="a text cannot be called 'orig_id'"):
        ingest(tmp_path / "in", tmp_path / "graph")


def test_a_text_called_key(tmp_path: Path) -> None:
    """The column of the keys of edges has this name."""
    write_edges(tmp_path / "in")
    rows = [{"id": 1, "key": "a"}, {"id": 2, "key": "b"}]
    write_graph(tmp_path / "in", as_parquet(tmp_path / "in", rows), features="", more=", text: [key]")
    ingest(tmp_path / "in", tmp_path / "graph")
    assert pq.read_table(next((tmp_path / "graph/node_text").rglob("*.parquet")))["key"].to_pylist() == [
        "a",
        "b",
    ]


NAMES = ["orig_id", "key", "row_key", "row_place", "value_0", "src", "dst", "src_key", "known_src"]


@pytest.mark.parametrize(
    "more", ["", ", on_defect: {duplicate_keys: drop}", ", split: {shares: [0.5, 0, 0]}"]
)
def test_features_with_names_that_are_used_inside(more: str, tmp_path: Path) -> None:
    write_edges(tmp_path / "in")
    values = {name: index for index, name in enumerate(NAMES)}
    rows = [
        {"id": 2, **values},
        {"id": 1, **dict.fromkeys(NAMES, 99)},
        *([{"id": 2, **values}] * ("drop" in more)),
    ]
    pq.write_table(pa.Table.from_pylist([{"s": 1, "d": 2, **values}]), tmp_path / "in/e.parquet")
    features = ", ".join(f"{name}: " for name in NAMES)
    write_graph(
        tmp_path / "in",
        as_parquet(tmp_path / "in", rows),
        features=features,
        more=more,
        edges="e.parquet",
        edge_features=f", features: {{{features}}}",
    )
    ingest(tmp_path / "in", tmp_path / "graph")
    for name, value in values.items():
        assert feature(tmp_path / "graph", "u", name).tolist() == [99, value]
        assert np.load(tmp_path / f"graph/edge_data/u:r:u/{name}-0.npy").tolist() == [value]


def test_the_order_of_rows_that_differ_in_the_sign_of_zero_does_not_matter(tmp_path: Path) -> None:
    rows = [
        {"s": 0, "d": 1, "w": w, "v": v}
        for w in (0.0, -0.0)
        for v in ([0.0, 1.0], [-0.0, 1.0], [-0.0, 1.0], [2.0, 1.0])
    ]
    nodes = [{"id": 0, "x": 0.0}, {"id": 0, "x": -0.0}, {"id": 1, "x": 1.0}]
    found = set()
    for name, some, twice in (
        ("a", rows, nodes),
        ("b", rows[::-1], nodes[::-1]),
        ("c", rows[3:] + rows[:3], nodes),
    ):
        folder = write_tables(tmp_path / name, [], "csv")
        pq.write_table(pa.Table.from_pylist(some), folder / "e.parquet")
        pq.write_table(pa.Table.from_pylist(twice), folder / "u.parquet")
        write_graph(
            folder,
            "u.parquet",
            more=", on_defect: {duplicate_keys: drop}",
            edges="e.parquet",
            edge_features=", weight: w, features: {v: }",
        )
        ingest(folder, tmp_path / f"graph-{name}")
        assert len(edges(tmp_path / f"graph-{name}", "u:r:u")) == len(rows)
        names = ("edge_data/u:r:u/weight-0.npy", "edge_data/u:r:u/v-0.npy", "node_data/u/x-0.npy")
        found.add(tuple((tmp_path / f"graph-{name}" / key).read_bytes() for key in names))
    assert len(found) == 1
