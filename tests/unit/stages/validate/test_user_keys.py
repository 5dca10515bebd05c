"""Findings that reject a graph made from tables name the user's keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA
from partition_ops.chunked.reversed_graph import with_reverses
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.open_graph import rows_finder
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from tests.tables import ingest, write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    """A graph made from tables in which a user has rated an item twice."""
    ingest(write_shop(tmp_path / "tables"), tmp_path / "graph")
    return open_store(str(tmp_path / "graph"))


def rejected(shop: Store, tmp_path: Path, **actions: str) -> tuple[str, dict[str, Any]]:
    """Return the error of validation, and its first example of a duplicate."""
    out = open_store(str(tmp_path / "out"))
    with pytest.raises(InvalidInputError) as error:
        validate_graph(ValidateConfig(on_defect=actions), shop, out, find_rows=rows_finder(open_store))
    report = out.read_json(layout.VALIDATION_REPORT)
    check_document(report, "validation_report", where="report")
    (example,) = next(one["examples"] for one in report["defects"] if one["check"] == "duplicate_edges")
    return str(error.value), example


def test_an_edge_has_the_keys_of_its_ends(shop: Store, tmp_path: Path) -> None:
    text, example = rejected(shop, tmp_path)
    assert "1 duplicate_edges of 'user:rated:item': 'u7' -> '7', " in text
    assert (example["src_key"], example["dst_key"]) == ("u7", "7")
    assert (example["edge_id"], example["file"]) == (2, "edges/user:rated:item-0.parquet")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"user": {"data": ["node_ids/user-0.parquet"], "column": "key"}},  # not those of items
        {"user": {"data": ["nowhere.parquet"], "column": "key"}},
        {"user": {"data": ["metadata.json"], "column": "key"}},
        {"user": {"data": ["node_ids/user-0.parquet"], "column": "none"}},
        {"user": {"data": ["node_ids/user-0.parquet"]}},
    ],
)
def test_without_good_files_of_keys_the_ids_are_told(shop: Store, tmp_path: Path, spec: Any) -> None:
    metadata = shop.read_json(METADATA)
    shop.write_json(METADATA, {**metadata, "node_ids": spec})
    text, example = rejected(shop, tmp_path)
    assert "1 duplicate_edges of 'user:rated:item': edge 2" in text
    assert "src_key" not in example


def test_an_edge_has_the_rows_of_its_table(shop: Store, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (tmp_path / "tables/ratings.jsonl").read_text().splitlines()]
    pairs = [(one["user_id"], one["sku"]) for one in rows]
    first, second = (index for index, pair in enumerate(pairs) if pair == ("u7", "7"))
    text, example = rejected(shop, tmp_path)
    assert example["table_rows"] == [{"file": "ratings.jsonl", "row": row} for row in (first, second)]
    assert example["sentence"] == f"'u7' -> '7', in ratings.jsonl, rows {first} and {second}"
    assert example["sentence"] in text
    assert "edges/" not in text  # a file that the user does not know


def test_a_table_that_has_changed_is_not_asked(shop: Store, tmp_path: Path) -> None:
    table = tmp_path / "tables/ratings.jsonl"
    table.write_text("\n".join(reversed(table.read_text().splitlines())) + "\n")
    _, example = rejected(shop, tmp_path)
    assert example["src_key"] == "u7"
    assert "table_rows" not in example


RELATIONS = """\
graph_name: facts
nodes: {thing: }
edges:
  thing:*:thing: {table: facts/*.csv, src: s, dst: o, relation: rel, reverse: rev_*}
"""
QUERY = """\
graph_name: facts
nodes: {thing: }
edges:
  thing:knows:thing: {table: {sql: "SELECT s, o FROM 'facts/*.csv'"}, src: s, dst: o}
"""


def duplicates(tmp_path: Path, graph: str) -> dict[str, list[Any]]:
    """Return the rows by edge type of edges that are there twice, of a graph made from two files of facts."""
    folder = tmp_path / "tables"
    (folder / "facts").mkdir(parents=True)
    (folder / "facts/1.csv").write_text("s,o,rel\n1,02,knows\n1,02,likes\n")
    (folder / "facts/2.csv").write_text("s,o,rel\n3,1,likes\n1,02,knows\n")
    (folder / "graph.yaml").write_text(graph)
    ingest(folder, tmp_path / "graph")
    out = open_store(str(tmp_path / "out"))
    with (
        with_reverses(open_store(str(tmp_path / "graph"))) as source,
        pytest.raises(InvalidInputError, match="'1' -> '02'"),
    ):
        validate_graph(ValidateConfig(), source, out, find_rows=rows_finder(open_store))
    found = out.read_json(layout.VALIDATION_REPORT)["defects"]
    twice = [one for one in found if one["check"] == "duplicate_edges"]
    return {one["name"]: one["examples"][0].get("table_rows") for one in twice}


def test_rows_are_those_of_the_relation_and_of_reverse_edges(tmp_path: Path) -> None:
    rows = [{"file": "facts/1.csv", "row": 0}, {"file": "facts/2.csv", "row": 1}]
    assert duplicates(tmp_path, RELATIONS) == {"thing:knows:thing": rows, "thing:rev_knows:thing": rows}


def test_rows_of_a_query_have_no_fixed_number(tmp_path: Path) -> None:
    assert {*duplicates(tmp_path, QUERY).values()} == {None}


def put_nan(shop: Store, key: str, row: int) -> None:
    """Write NaN into a row of a file of a feature."""
    values = np.load(shop.local_copy(key)).astype(np.float32)
    values[row] = np.nan
    shop.write_array(key, values)


def nonfinite(shop: Store, tmp_path: Path, **actions: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the error about values that are NaN, and the first example of each feature."""
    out = open_store(str(tmp_path / "out"))
    config = ValidateConfig(on_defect={"nonfinite_values": "fail", **actions})
    with pytest.raises(InvalidInputError) as error:
        validate_graph(config, shop, out, find_rows=rows_finder(open_store))
    report = out.read_json(layout.VALIDATION_REPORT)
    check_document(report, "validation_report", where="report")
    defects = [one for one in report["defects"] if one["check"] == "nonfinite_values"]
    return str(error.value), {one["name"]: one["examples"][0] for one in defects}


def test_a_value_of_a_node_has_its_key(shop: Store, tmp_path: Path) -> None:
    put_nan(shop, "node_data/user/age-0.npy", 2)
    text, examples = nonfinite(shop, tmp_path, duplicate_edges="warn")
    key = pq.read_table(shop.local_copy("node_ids/user-0.parquet"))["key"][2].as_py()
    example = examples["user/age"]
    assert example.items() >= {"node_id": 2, "key": key, "value": "nan"}.items()
    (row,) = example["table_rows"]
    table = pq.read_table(tmp_path / "tables" / row["file"])  # one of two files
    assert table["user_id"][row["row"]].as_py() == key
    assert f"nonfinite_values of 'user/age': nan of {key!r}, in {row['file']}, row {row['row']}" in text


@pytest.mark.parametrize("damaged", [False, True])
def test_a_value_of_an_edge_has_the_keys_of_its_ends_and_the_rows(
    damaged: bool, shop: Store, tmp_path: Path
) -> None:
    key, edges = "edge_data/user:rated:item/weight-0.npy", "edges/user:rated:item-0.parquet"
    stars = np.load(shop.local_copy(key)).ravel().tolist()
    put_nan(shop, key, stars.index(3.0))  # the rating of u2, in row 2
    if damaged:  # an ID out of range, in the same file
        table = pq.read_table(shop.local_copy(edges))
        wrong = table.set_column(0, table.column_names[0], [pa.array([99] * len(table))])
        pq.write_table(wrong, tmp_path / "graph" / edges)
    text, examples = nonfinite(shop, tmp_path, duplicate_edges="warn")
    example = examples["user:rated:item/weight"]
    assert example["edge_id"] == stars.index(3.0)
    assert ("src_key" in example) is not damaged
    if not damaged:
        assert (example["src_key"], example["dst_key"]) == ("u2", "007")
        assert example["table_rows"] == [{"file": "ratings.jsonl", "row": row_of("u2", "007", tmp_path)}]
        assert f"nan of 'u2' -> '007', in ratings.jsonl, row {row_of('u2', '007', tmp_path)}" in text


def row_of(user: str, item: str, tmp_path: Path) -> int:
    rows = [json.loads(line) for line in (tmp_path / "tables/ratings.jsonl").read_text().splitlines()]
    return [(one["user_id"], one["sku"]) for one in rows].index((user, item))


def test_rows_of_several_files_have_the_ids_of_their_nodes(shop: Store, tmp_path: Path) -> None:
    metadata = shop.read_json(METADATA)
    ages = np.load(shop.local_copy("node_data/user/age-0.npy"))
    metadata["node_data"]["user"]["age"]["data"] = ["a.npy", "b.npy"]
    shop.write_json(METADATA, metadata)
    shop.write_array("a.npy", ages[:3])
    shop.write_array("b.npy", ages[3:])
    put_nan(shop, "b.npy", 0)
    _, examples = nonfinite(shop, tmp_path, duplicate_edges="warn")
    assert examples["user/age"]["node_id"] == 3
