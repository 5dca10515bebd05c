"""What is wrong with tables is said in their words: column, value, file and row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError, UsageError
from tests.tables import (
    ITEMS,
    RATINGS,
    SHOP,
    USERS,
    edges,
    feature,
    ingest,
    keys,
    write_shop,
)

LENIENT = SHOP + "on_defect: {null_keys: drop, duplicate_keys: drop, absent_keys: drop}\n"
ADDING = LENIENT.replace("absent_keys: drop", "absent_keys: add")
NO_KEY = {**USERS[0], "user_id": None}
TWICE = {**USERS[0], "age": 99}
ABSENT = {**RATINGS[0], "sku": "zz"}


def test_findings_of_all_tables_are_said_at_once(tmp_path: Path) -> None:
    write_shop(
        tmp_path / "tables",
        users=[*USERS, NO_KEY, TWICE],
        ratings=[*RATINGS, ABSENT, {**RATINGS[0], "user_id": None}],
    )
    with pytest.raises(InvalidInputError) as raised:
        ingest(tmp_path / "tables", tmp_path / "graph")
    found = raised.value.found
    assert found == [
        "1 row of users/*.parquet (nodes 'user') without a key in user_id:"
        " user_id null in users/b.parquet, row 1",
        "1 row of users/*.parquet (nodes 'user') with a key in user_id that another row has:"
        " user_id 'u7' in users/a.parquet, row 0, user_id 'u7' in users/b.parquet, row 2",
        "1 row of ratings.jsonl (edges 'user:rated:item') without a key in user_id:"
        " user_id null in ratings.jsonl, row 5",
        "1 row of ratings.jsonl (edges 'user:rated:item') whose item in sku is not in items.csv (1 key):"
        " sku 'zz' in ratings.jsonl, row 4",
    ]
    assert "on_defect: {absent_keys: drop}" in str(raised.value)
    assert not (tmp_path / "graph/metadata.json").exists()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_of_a_large_text_file_keep_their_numbers(kind: str, tmp_path: Path) -> None:
    count, twice = 700_000, 444_444  # DuckDB's threads read it block by block
    numbers = [*range(count)]
    numbers[twice] = 7
    line = "u{},padding of some length\n" if kind == "csv" else '{{"id": "u{}", "text": "padding"}}\n'
    head = "id,text\n" if kind == "csv" else ""
    (tmp_path / f"users.{kind}").write_text(head + "".join(map(line.format, numbers)))
    (tmp_path / "edges.csv").write_text("src,dst\nu1,u2\n")
    nodes, edges = f"{{table: users.{kind}, key: id}}", "{table: edges.csv, src: src, dst: dst}"
    graph = f"graph_name: users\nnodes: {{user: {nodes}}}\nedges: {{'user:knows:user': {edges}}}\n"
    (tmp_path / "graph.yaml").write_text(graph)
    with pytest.raises(InvalidInputError) as raised:
        ingest(tmp_path, tmp_path / "graph")
    assert {f"id 'u7' in users.{kind}, row {row}" in str(raised.value) for row in (7, twice)} == {True}


@pytest.mark.parametrize(
    ("text", "problem", "found", "remedy"),
    [
        ("", "graph.yaml holds nothing", None, ""),
        ("# no line\n", "graph.yaml holds nothing", None, ""),
        (
            SHOP.replace("src: user_id", "srcc: user_id"),
            "'src' is a required property",
            "'srcc', which the format does not have",
            "Did you mean 'src' instead of 'srcc'? ",
        ),
        (
            SHOP.replace("    key: sku", "    key: sku\n    lable: price"),
            "'lable' was unexpected",
            "'lable', which the format does not have",
            "Did you mean 'label' instead of 'lable'? ",
        ),
        (SHOP + "extra: 1\n", "'extra' was unexpected", "'extra', which the format does not have", ""),
    ],
)
def test_an_unknown_or_missing_entry_is_named(
    text: str, problem: str, found: str | None, remedy: str, tmp_path: Path
) -> None:
    write_shop(tmp_path / "tables", graph=text)
    with pytest.raises(InvalidInputError, match=problem) as raised:
        ingest(tmp_path / "tables", tmp_path / "graph")
    assert raised.value.found == found
    assert raised.value.remedy == f"{remedy}schemas/graph_tables.schema.json describes the format."
    assert not (tmp_path / "graph").exists()


def test_columns_of_nodes_are_rejected_before_edges(tmp_path: Path) -> None:
    """They are written in a thread, while edges whose file is damaged behind its header are read."""
    count = 50_000
    ids = np.arange(count)
    vectors = [*(["0.5,1"] * (count - 1)), "0.5,one"]
    pq.write_table(pa.table({"id": ids, "vector": vectors}), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"src": ids, "dst": ids[::-1]}), tmp_path / "edges.parquet", compression=None)
    data = bytearray((tmp_path / "edges.parquet").read_bytes())
    data[4:4096] = bytes(4092)
    (tmp_path / "edges.parquet").write_bytes(data)
    (tmp_path / "graph.yaml").write_text(
        "graph_name: g\nnodes:\n  n: {table: nodes.parquet, key: id, features: {vector: {separator: ','}}}\n"
        "edges:\n  n:to:n: {table: edges.parquet, src: src, dst: dst}\n"
    )
    for _ in range(3):
        with pytest.raises(InvalidInputError, match="feature 'vector'") as raised:
            ingest(tmp_path, tmp_path / "graph")
        assert "0.5,one" in str(raised.value)
    pq.write_table(pa.table({"id": ids, "vector": vectors[:1] * count}), tmp_path / "nodes.parquet")
    with pytest.raises(InvalidInputError, match="a table cannot be read"):
        ingest(tmp_path, tmp_path / "graph")


def test_rows_can_be_dropped(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", users=[*USERS, NO_KEY, TWICE], ratings=[*RATINGS, ABSENT], graph=LENIENT)
    result = ingest(tmp_path / "tables", tmp_path / "graph")
    assert result.counters["findings"] == {
        "null_keys user": 1,
        "duplicate_keys user": 1,
        "absent_keys user:rated:item": 1,
        "empty_parts user": 1,
    }
    assert keys(tmp_path / "graph", "user") == ["u07", "u2", "u7", "ü1"]
    assert feature(tmp_path / "graph", "user", "age")[2] == 1  # 31 comes before 99
    assert len(edges(tmp_path / "graph", "user:rated:item")) == len(RATINGS)


def test_absent_keys_can_be_added(tmp_path: Path) -> None:
    graph = ADDING.replace("20]}", "20], missing: 0}").replace("buckets: 16", 'buckets: 16, missing: ""')
    graph = graph.replace("    key: sku\n", "    key: sku\n    split: {shares: [1, 0, 0]}\n")
    write_shop(tmp_path / "tables", ratings=[*RATINGS, ABSENT], graph=graph)
    result = ingest(tmp_path / "tables", tmp_path / "graph")
    assert result.counters["findings"] == {"absent_keys item": 1, "empty_parts user": 1}
    assert keys(tmp_path / "graph", "item") == ["007", "7", "x", "zz"]
    assert feature(tmp_path / "graph", "item", "price").tolist() == [0, 1, 2, 0]
    assert feature(tmp_path / "graph", "item", "train_mask").tolist() == [True, True, True, False]


CASES: list[tuple[dict[str, Any], tuple[str, str], str]] = [
    ({}, (", missing: mean", ""), "user_id 'u07', age null in users/a.parquet, row 1"),
    ({}, ("key: sku", "key: skuu"), "items.csv has no column 'skuu'.*Did you mean 'sku'"),
    ({}, ("items.csv", "itemz.csv"), "there is no table itemz.csv"),
    (
        {"items": [*ITEMS, {"sku": "q", "price": "low", "brand": "b"}]},
        ("", ""),
        "price 'low' in items.csv, row 3",
    ),
    (
        {},
        ("test: [test]", "test: [train]"),
        "3 rows .* in several of .* user_id 'u7' in users/a.parquet, row 0",
    ),
    ({}, ("src: user_id", "src: stars"), "'stars' of ratings.jsonl cannot be a key.*double"),
    ({}, ("20]}", "20], dtype: int64}"), "'dtype' goes with the transform none"),
    ({}, ("transform: hash, buckets: 16", "transform: hash"), "hash needs 'buckets'"),
    ({}, ("nodes:", "nodes: ["), "not valid YAML.*line 4"),
    ({}, ("table: items.csv", "tabel: items.csv"), "nodes.item .*'tabel' was unexpected"),
    ({}, ("dst: tag", "dst: tag, src: x"), "'src' is there twice, in line 19"),
    ({}, ("item:has:tag", "item:has:tags"), "unknown node type.*'tags'"),
    ({}, ("item:has:tag:", "item:has:item:"), "'tag' has no table, and no edges name it"),
    (
        {"users": [*USERS, {**USERS[3], "user_id": "u9", "churned": "may"}]},
        ("graph_name: shop", "graph_name: shop\non_defect: {missing_classes: fail}"),
        "1 of 3 classes of churned .* no training node: 'may'",
    ),
]


@pytest.mark.parametrize(("tables", "change", "message"), CASES)
def test_messages(tmp_path: Path, tables: dict[str, Any], change: tuple[str, str], message: str) -> None:
    graph = SHOP.replace(*change) if change[0] else SHOP
    write_shop(tmp_path / "tables", graph=graph, **tables)
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        ingest(tmp_path / "tables", tmp_path / "graph")


def test_a_split_needs_training_rows(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", graph=SHOP.replace("train: [train]", "train: [Train]"))
    with pytest.raises(InvalidInputError) as raised:
        ingest(tmp_path / "tables", tmp_path / "graph")
    assert raised.value.found == [
        "2 parts of the split without a row (nodes 'user'): train ['Train'], val ['valid']:"
        " the column part has 'train' in 3 rows"
    ]


SPLIT = "split: {column: part, train: [train], val: [valid], test: [test]}"


def sentences(graph: Path) -> dict[str, tuple[int, str]]:
    found = json.loads((graph / "ingest.json").read_text())["findings"]
    return {one["check"]: (one["count"], ", ".join([one["sentence"], *one["examples"]])) for one in found}


def test_values_without_a_part_are_counted(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", graph=SHOP.replace(SPLIT, SPLIT.replace("test: [test]", "test: [dev]")))
    ingest(tmp_path / "tables", tmp_path / "graph")
    found = sentences(tmp_path / "graph")
    assert found["unnamed_parts"] == (
        1,
        "1 row of users/*.parquet (nodes 'user') with a value in part that no part of the split names,"
        " 'test' in 1 row",
    )
    assert found["empty_parts"][1].startswith(
        "2 parts of the split without a row (nodes 'user'): val ['valid'],"
    )
    assert not feature(tmp_path / "graph", "user", "test_mask").any()


def test_values_that_no_training_row_has_are_counted(tmp_path: Path) -> None:
    graph = SHOP.replace("age: {transform: standardise", "age: {transform: min-max")
    users = [*USERS, {**USERS[3], "user_id": "u9", "country": "br", "age": 99}]
    write_shop(tmp_path / "tables", users=users, graph=graph)
    ingest(tmp_path / "tables", tmp_path / "graph")
    found = sentences(tmp_path / "graph")
    assert found["unknown_categories"] == (
        1,
        "1 value of country in users/*.parquet (feature 'country' of 'user') with a category that no"
        " training row has, which becomes zeros, 'br'",  # and not the null of u2, which 'missing' stands for
    )
    assert found["out_of_range"][0] == 2 and found["out_of_range"][1].endswith("training rows, 40.0, 99.0")
    strict = graph + "on_defect: {out_of_range: fail}\n"
    (tmp_path / "tables/graph.yaml").write_text(strict)
    with pytest.raises(InvalidInputError, match=r"2 values of age .*40\.0, 99\.0"):
        ingest(tmp_path / "tables", tmp_path / "other")
    assert not (tmp_path / "other/metadata.json").exists()


def test_tables_are_not_overwritten(tmp_path: Path) -> None:
    write_shop(tmp_path, graph=SHOP.replace("tags.parquet", "edges/tags.parquet"))
    (tmp_path / "edges").mkdir()
    (tmp_path / "tags.parquet").rename(tmp_path / "edges/tags.parquet")
    with pytest.raises(UsageError, match="A table lies where the graph is written"):
        ingest(tmp_path, tmp_path)
