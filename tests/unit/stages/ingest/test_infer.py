"""``ingest --infer`` and ``--example``: what is printed is a graph.yaml that works."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.graph_file import EXAMPLE, parse_graph_file
from partition_ops.stages.ingest.infer import infer_graph_file
from partition_ops.storage import open_store
from tests.command_line import Called
from tests.tables import ITEMS, RATINGS, TAGS, USERS, ingest, write_csv, write_json_lines, write_parquet


def test_the_example_is_valid(called: Called) -> None:
    graph = parse_graph_file(EXAMPLE.encode(), "example")
    assert [node.name for node in graph.nodes] == ["user", "item", "tag"]
    assert called("ingest", "--example").stdout == EXAMPLE


def test_a_proposal_can_be_ingested(tmp_path: Path, called: Called) -> None:
    users = [
        {**user, "age": 30, "friend": friend}
        for user, friend in zip(USERS, ("u2", None, "u7", "u2"), strict=True)
    ]
    (tmp_path / "ratings").mkdir()
    write_parquet(tmp_path / "users-0.parquet", users[:2])
    write_parquet(tmp_path / "users-1.parquet", users[2:])
    write_csv(tmp_path / "items.csv", ITEMS)
    write_json_lines(tmp_path / "ratings/a.jsonl", RATINGS[:2])
    write_json_lines(tmp_path / "ratings/b.jsonl", RATINGS[2:])
    for rows in (TAGS[:1], TAGS[1:], [{"sku": "x", "tag": "gone"}]):
        write_deltalake(str(tmp_path / "tags"), pa.Table.from_pylist(rows), mode="append")
    DeltaTable(str(tmp_path / "tags")).delete("tag = 'gone'")
    printed = called("ingest", "--infer", tmp_path)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "graph.yaml").write_text(printed.stdout)
    ingest(tmp_path, tmp_path / "graph")
    assert called("ingest", "--infer", tmp_path).stdout == printed.stdout  # the graph is no table
    metadata = load_metadata(open_store(str(tmp_path / "graph")))
    assert {*metadata.node_types} == {"user", "item", "tag"}
    assert {
        str(edge_type): count
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True)
    } == {
        "user:friend:user": 3,
        "user:rating:item": 4,
        "item:tag:tag": 3,
    }
    assert {feature.key for feature in metadata.node_features} >= {"user/age", "item/price"}


def test_a_category_whose_values_are_keys_by_chance_is_no_edge(tmp_path: Path) -> None:
    rows = [{"id": f"p{i}", "section": f"p{i % 3}", "size": i} for i in range(40)]
    write_csv(tmp_path / "packages.csv", rows)
    write_csv(tmp_path / "dependencies.csv", [{"package": "p1", "needs": "p2"}])
    proposal = infer_graph_file(open_store(str(tmp_path)))
    assert "section: {transform: one-hot}" in proposal
    assert "package:dependency:package:" in proposal and proposal.count("    src:") == 1


def test_a_split_and_a_time_are_proposed_and_ingested(tmp_path: Path) -> None:
    parts = ("train", "valid", "Test", "train")
    users = [{"id": f"u{i}", "part": part, "half": part[:1]} for i, part in enumerate(parts)]
    write_csv(tmp_path / "users.csv", users)
    write_csv(tmp_path / "calls.csv", [{"from": "u0", "to": "u1", "at": "2026-01-03", "ended": "2026-01-04"}])
    proposal = infer_graph_file(open_store(str(tmp_path)))
    assert "    split: {column: part, train: [train], val: [valid], test: [Test]}\n" in proposal
    assert "part: {transform" not in proposal and "half: {transform: one-hot}" in proposal
    assert "    time: at\n" in proposal and "      ended:\n" in proposal
    assert f"save it as graph.yaml in {tmp_path}." in proposal
    (tmp_path / "graph.yaml").write_text(proposal)
    ingest(tmp_path, tmp_path / "graph")
    metadata = load_metadata(open_store(str(tmp_path / "graph")))
    assert {feature.key for feature in metadata.node_features} >= {"user/train_mask", "user/test_mask"}


def test_edges_with_distinct_sources_are_no_nodes(tmp_path: Path) -> None:
    write_csv(tmp_path / "people.csv", [{"name": name, "born": 1990} for name in ("Ann", "Bob", "Chris")])
    pairs = (("Ann", "Bob"), ("Bob", "Chris"), ("Chris", "Dora"))
    write_csv(tmp_path / "friends.csv", [{"from": one, "to": other} for one, other in pairs])
    assert "  people:friend:people:\n" in infer_graph_file(open_store(str(tmp_path)))


def test_tables_without_edges_have_no_proposal(tmp_path: Path) -> None:
    write_csv(tmp_path / "items.csv", ITEMS)
    with pytest.raises(InvalidInputError, match="looks like edges"):
        infer_graph_file(open_store(str(tmp_path)))


def test_a_key_with_defects_is_proposed_and_named(tmp_path: Path) -> None:
    users = [{"user_id": key, "age": 30} for key in ("u1", "u2", "u3", "u3", None)]
    write_csv(tmp_path / "users.csv", users)
    friends = [("u1", "u2"), ("u1", "u3"), ("u2", "u3")]
    write_csv(tmp_path / "friends.csv", [{"user_id": one, "friend": two} for one, two in friends])
    proposal = infer_graph_file(open_store(str(tmp_path)))
    assert "    key: user_id\n    # 1 row without a key, 1 row with a key that another row" in proposal
    (tmp_path / "graph.yaml").write_text(proposal)
    with pytest.raises(InvalidInputError, match="the tables are not a graph") as refused:
        ingest(tmp_path, tmp_path / "graph")
    nulls, twice = refused.value.lines()[-2:]  # a line for each remedy
    assert "null_keys: drop" in nulls and "duplicate_keys: drop" in twice


def test_a_folder_without_tables_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"There are no tables below .*end with \.parquet"):
        infer_graph_file(open_store(str(tmp_path)))
