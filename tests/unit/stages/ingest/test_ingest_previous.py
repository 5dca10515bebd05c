"""A grown graph keeps the IDs of old nodes and the transforms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partition_ops.errors import InvalidInputError
from tests.tables import ITEMS, RATINGS, SHOP, TAGS, USERS, edges, feature, ingest, keys, write_shop

NEW_USER = {**USERS[0], "user_id": "a1", "age": 36, "country": "xx", "churned": "maybe"}
NEW_ITEM = {"sku": "0", "price": 15.0, "brand": "acme"}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    ingest(write_shop(folder / "tables"), folder / "graph")
    return folder / "graph"


def test_new_nodes_come_behind_the_old_ones(before: Path, tmp_path: Path) -> None:
    write_shop(
        tmp_path / "tables",
        users=[NEW_USER, *USERS],
        items=[NEW_ITEM, *ITEMS],
        ratings=[{**RATINGS[0], "user_id": "a1", "sku": "0"}, *RATINGS],
        tags=[{"sku": "0", "tag": "a tag"}],  # the old tags are gone from the table, and stay
    )
    ingest(tmp_path / "tables", tmp_path / "graph", previous=before)
    graph = tmp_path / "graph"
    assert keys(graph, "user") == [*keys(before, "user"), "a1"]
    assert keys(graph, "item") == [*keys(before, "item"), "0"]
    assert keys(graph, "tag") == ["new", "old", "a tag"]
    assert (4, 3) in edges(graph, "user:rated:item")
    # the new user of 36 years has (36 - 26) / 5: mean and deviation are those of the old training rows
    assert feature(graph, "user", "age").tolist() == [*feature(before, "user", "age").tolist(), 2.0]
    assert feature(graph, "user", "country").tolist()[4] == [0, 0]  # a new country has no column
    assert feature(graph, "user", "label").tolist() == [*feature(before, "user", "label").tolist(), 2]

    found = {one["check"]: one for one in json.loads((graph / "ingest.json").read_text())["findings"]}
    assert found["unknown_categories"]["examples"] == ["'xx'"]
    assert found["new_classes"]["examples"] == ["'maybe'"] and found["new_classes"]["count"] == 1


def test_old_nodes_must_stay(before: Path, tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", items=ITEMS[:2], ratings=RATINGS[:2], tags=TAGS[1:])
    with pytest.raises(InvalidInputError, match=r"1 node of the previous graph .*no row in items.csv.*'x'"):
        ingest(tmp_path / "tables", tmp_path / "graph", previous=before)


def test_transforms_must_stay(before: Path, tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", graph=SHOP.replace("[10, 20]", "[10, 30]"))
    with pytest.raises(InvalidInputError, match=r"'price' is not as in the previous graph"):
        ingest(tmp_path / "tables", tmp_path / "graph", previous=before)


def test_previous_must_be_ingested(before: Path, tmp_path: Path) -> None:
    write_shop(tmp_path / "tables")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/metadata.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="is not a graph that 'partition-ops ingest' has made"):
        ingest(tmp_path / "tables", tmp_path / "graph", previous=tmp_path / "other")


def test_nodes_that_edges_have_added_stay(tmp_path: Path) -> None:
    graph = SHOP.replace("weight: stars,", "weight: stars, on_defect: {absent_keys: add},")
    graph = graph.replace("[10, 20]", "[10, 20], missing: 0").replace("16}", "16, missing: ''}")
    named = [*RATINGS, {**RATINGS[0], "sku": "later"}, {**RATINGS[0], "sku": "never"}]
    write_shop(tmp_path / "tables", graph=graph, ratings=named)
    ingest(tmp_path / "tables", tmp_path / "first")
    ingest(tmp_path / "tables", tmp_path / "same", previous=tmp_path / "first")
    for name in ("user", "item", "tag"):
        assert keys(tmp_path / "same", name) == keys(tmp_path / "first", name)
    ratings = [*named, {**RATINGS[0], "sku": "0"}]
    items = [*ITEMS, {"sku": "later", "price": 15.0, "brand": "acme"}]
    write_shop(tmp_path / "grown", graph=graph, ratings=ratings, items=items)
    result = ingest(tmp_path / "grown", tmp_path / "next", previous=tmp_path / "first")
    assert keys(tmp_path / "next", "item") == [*keys(tmp_path / "first", "item"), "0"]
    assert result.counters["findings"]["absent_keys item"] == 2  # "never" and "0"
    write_shop(tmp_path / "gone", graph=graph, items=items)
    with pytest.raises(InvalidInputError, match=r"no row in items.csv or ratings.jsonl.*'never'"):
        ingest(tmp_path / "gone", tmp_path / "other", previous=tmp_path / "first")
