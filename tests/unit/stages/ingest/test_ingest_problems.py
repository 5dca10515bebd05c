"""What is wrong with tables is said in their words: column, value, file and row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_rows_can_be_dropped(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", users=[*USERS, NO_KEY, TWICE], ratings=[*RATINGS, ABSENT], graph=LENIENT)
    result = ingest(tmp_path / "tables", tmp_path / "graph")
    assert result.counters["findings"] == {
        "null_keys user": 1,
        "duplicate_keys user": 1,
        "absent_keys user:rated:item": 1,
    }
    assert keys(tmp_path / "graph", "user") == ["u07", "u2", "u7", "ü1"]
    assert feature(tmp_path / "graph", "user", "age")[2] == 1  # 31 comes before 99
    assert len(edges(tmp_path / "graph", "user:rated:item")) == len(RATINGS)


def test_absent_keys_can_be_added(tmp_path: Path) -> None:
    graph = ADDING.replace("20]}", "20], missing: 0}").replace("buckets: 16", 'buckets: 16, missing: ""')
    graph = graph.replace("    key: sku\n", "    key: sku\n    split: {shares: [1, 0, 0]}\n")
    write_shop(tmp_path / "tables", ratings=[*RATINGS, ABSENT], graph=graph)
    result = ingest(tmp_path / "tables", tmp_path / "graph")
    assert result.counters["findings"] == {"absent_keys item": 1}
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


def test_tables_are_not_overwritten(tmp_path: Path) -> None:
    write_shop(tmp_path, graph=SHOP.replace("tags.parquet", "edges/tags.parquet"))
    (tmp_path / "edges").mkdir()
    (tmp_path / "tags.parquet").rename(tmp_path / "edges/tags.parquet")
    with pytest.raises(UsageError, match="A table lies where the graph is written"):
        ingest(tmp_path, tmp_path)
