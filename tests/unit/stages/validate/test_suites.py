"""Expectation suites: those that are rejected, and how a folder of them is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.expectations.suites import Suite, all_suites, base_suites, read_suites
from partition_ops.stages.validate.metrics import METRICS
from partition_ops.storage import open_store

BETWEEN = "expect_column_values_to_be_between"


def suite(kind: str = BETWEEN, name: str = "node_types", **kwargs: Any) -> dict[str, Any]:
    return {"name": name, "expectations": [{"type": kind, "kwargs": kwargs}]}


def condition(text: Any, parser: str = "great_expectations") -> dict[str, Any]:
    return suite(column="nodes", max_value=1, row_condition=text, condition_parser=parser)


REJECTED = {
    "no object": ([], r"the document violates the format"),
    "no table": ({"expectations": []}, r"'name' is a required property"),
    "an unknown table": (suite(name="nodes", column="x"), r"'nodes' is not one of.*node_types, edge_types"),
    "no expectations": ({"name": "graph"}, r"'expectations' is a required property"),
    "no type": ({"name": "graph", "expectations": [{"kwargs": {}}]}, r"expectations\[0\].*'type'"),
    "a typing error": (
        {"name": "graph", "expectations": [], "expectation": []},
        r"'expectation' was unexpected",
    ),
    "an unknown action": (
        {"name": "graph", "expectations": [{"type": BETWEEN, "kwargs": {}, "meta": {"action": "stop"}}]},
        r"meta\.action.*'stop'.*fail, warn or info",
    ),
    "an unknown column": (
        suite(column="isolated", max_value=1),
        r"expectations\[0\]\.kwargs\.column.*'node_types'.*'isolated'.*isolated_nodes, isolated_share",
    ),
    "an unknown second column": (
        suite("expect_column_pair_values_to_be_equal", column_A="nodes", column_B="edges"),
        r"kwargs\.column_B.*'edges'",
    ),
    "an unknown column in a list": (
        suite("expect_compound_columns_to_be_unique", column_list=["name", "edges"]),
        r"kwargs\.column_list.*'edges'",
    ),
    "an unknown column in a condition": (condition('col("edges") == 1'), r"row_condition.*'edges'"),
    "a condition that could run code": (
        condition("@pd.eval('1')", "pandas"),
        r"row_condition|condition_parser",
    ),
    "a quoted condition that could run code": (condition('col("name") == "x`@pd`"'), r"row_condition"),
    "a condition that is an object": (condition({"type": "pass_through"}), r"row_condition"),
    "another form of results": (
        suite(column="nodes", max_value=1, result_format="BASIC"),
        r"schema does not allow 'BASIC'",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_broken_suite_is_rejected(case: str) -> None:
    document, words = REJECTED[case]
    with pytest.raises(InvalidInputError, match=words) as raised:
        all_suites([Suite("s3://bucket/mine.json", document)])
    assert str(raised.value).startswith("s3://bucket/mine.json: ")


def test_a_suite_that_is_not_json_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"mine\.json"):
        read_suites(open_store(str(tmp_path)))


def test_suites_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "notes.txt", "deeper/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(suite()))
    suites = read_suites(open_store(str(tmp_path)))
    assert [one.where.rpartition("/")[2] for one in suites] == ["a.json", "b.json"]
    with pytest.raises(InvalidInputError, match=r"holds no expectation suites"):
        read_suites(open_store(str(tmp_path / "empty")))


def test_our_suites_are_accepted_and_cover_every_table() -> None:
    assert [suite.table for suite in all_suites([])] == list(METRICS)
    assert all(suite.document["expectations"] for suite in base_suites())
