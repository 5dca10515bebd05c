"""``ingest --infer`` and ``--example``: what is printed is a graph.yaml that works."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

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
    with pytest.raises(InvalidInputError, match=r"There are no tables below .*end with \.parquet") as raised:
        infer_graph_file(open_store(str(tmp_path / "nowhere")))
    assert raised.value.found == "no file there"


def test_a_folder_that_is_a_graph_is_said(tmp_path: Path, called: Called) -> None:
    write_csv(tmp_path / "friends.csv", [{"from": "Ann", "to": "Bob"}])
    (tmp_path / "graph.yaml").write_text(called("ingest", "--infer", tmp_path).stdout)
    ingest(tmp_path, tmp_path / "graph")
    said = called("ingest", "--infer", tmp_path / "graph")
    assert said.returncode == 3 and "is a graph in the chunked format already" in said.stderr


def test_infer_takes_one_path(tmp_path: Path, called: Called) -> None:
    said = called("ingest", "--infer", tmp_path, tmp_path / "more")
    assert said.returncode == 2 and "--infer print a GRAPH.yaml, and take none" in said.stderr


@pytest.mark.parametrize(
    "text", ['{"license": "CC0"}', "no JSON", "[]", "[" * 200_000], ids=["another", "text", "list", "deep"]
)
def test_another_metadata_file_hides_no_tables(text: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "friends.csv", [{"from": "Ann", "to": "Bob"}])
    (tmp_path / "metadata.json").write_text(text)
    assert "friend" in infer_graph_file(open_store(str(tmp_path)))


@pytest.mark.parametrize("path", ["", "bad.db"])
def test_a_database_that_cannot_be_read_is_said(path: str, tmp_path: Path, called: Called) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database at all")
    said = called("ingest", "--infer", tmp_path / path)
    assert said.returncode == 3 and "bad.db: not a database that can be read" in said.stderr


def proposed(folder: Path) -> tuple[str, dict[str, int]]:
    """The proposal for a folder, and the number of nodes and edges by type of the graph that it makes."""
    text = infer_graph_file(open_store(str(folder)))
    (folder / "graph.yaml").write_text(text)
    target = folder.parent / f"{folder.name} graph"
    ingest(folder, target)
    metadata = load_metadata(open_store(str(target)))
    nodes = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    return text, nodes | dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True))


def test_folders_of_rows_are_one_table_and_files_with_other_columns_are_several(tmp_path: Path) -> None:
    for year in (2020, 2021):
        rows = [{"paper_id": f"p{year}{i}", "pages": i} for i in range(3)]
        write_parquet(tmp_path / f"data/papers/year={year}/part-0.parquet", rows)
        cites = [{"paper_id": f"p{year}{i}", "cited": "p20200"} for i in range(3)]
        write_parquet(tmp_path / f"data/cites/{year}/01/part-0.snappy.parquet", cites)
    (tmp_path / "csv").mkdir()
    write_csv(tmp_path / "csv/venues.csv", [{"venue_id": f"v{i}", "seats": i} for i in range(2)])
    write_csv(tmp_path / "csv/held.csv", [{"venue_id": "v0", "paper_id": "p20201"}])
    text, counts = proposed(tmp_path)
    assert "    table: data/papers/**/*.parquet\n" in text and "Left out" not in text
    assert counts == {
        **{"paper": 6, "venue": 2},
        **{"paper:cite:paper": 6, "venue:held:paper": 1},
    }
    assert "year: {transform: standardise}" in text


def test_tables_of_databases_are_proposed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE users (user_id TEXT, age INTEGER, photo BLOB)")
        connection.execute('CREATE TABLE "big orders" (order_id INTEGER, user_id TEXT)')
        connection.executemany("INSERT INTO users VALUES (?, ?, ?)", [("u1", 3, b"x"), ("u2", 4, b"y")])
        connection.executemany('INSERT INTO "big orders" VALUES (?, ?)', [(1, "u1"), (2, "u1"), (3, "u2")])
        connection.commit()
    with closing(duckdb.connect(str(tmp_path / "more.duckdb"))) as connection:
        connection.execute("CREATE TABLE friends AS SELECT 'u1' AS user_id, 'u2' AS friend")
    (tmp_path / "notes.db").write_text("no database")
    text, counts = proposed(tmp_path)
    assert counts["user"] == 2 and counts["user:friend:user"] == 1
    assert 'table: {sql: SELECT * FROM "users", database: shop.db}' in text
    assert sum(count == 3 for name, count in counts.items() if "order" in name and ":" in name) == 1


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (["src", "dst", "w"], [("a", "b", 1), ("b", "c", 2)], {"node": 3, "node:edge:node": 2}),
        (
            ["user_id", "item_id"],
            [("a", "x"), ("a", "y"), ("b", "x")],
            {"user": 2, "item": 2, "user:edge:item": 3},
        ),
        (["giver", "taker"], [("a", "b"), ("b", "c"), ("b", "a")], {"node": 3, "node:edge:node": 3}),
        (
            ["subject", "predicate", "object"],
            [("a", "knows", "b"), ("b", "likes", "c"), ("c", "knows", "a")],
            {"node": 3, "node:knows:node": 2, "node:likes:node": 1},
        ),
        (
            ["id", "source", "target", "sum"],
            [("t1", "a", "b", 1), ("t2", "b", "a", 2), ("t3", "b", "c", 1)],
            {"node": 3, "node:edge:node": 3},
        ),
    ],
)
def test_ends_of_edges_without_a_table(tmp_path: Path, columns: Any, rows: Any, expected: Any) -> None:
    (tmp_path / "graph").mkdir()
    write_csv(tmp_path / "graph/edges.csv", [dict(zip(columns, row, strict=True)) for row in rows])
    text, counts = proposed(tmp_path / "graph")
    assert counts == expected
    assert ("    key: id\n" in text) == (columns[0] == "id")


def test_a_relation_beside_other_ends_is_a_feature(tmp_path: Path) -> None:
    write_csv(tmp_path / "packages.csv", [{"package": f"p{i}", "size": i} for i in range(4)])
    needs = [{"package": f"p{i}", "needs": "p0", "relation": "ab"[i % 2]} for i in range(4)]
    write_csv(tmp_path / "dependencies.csv", [*needs, needs[0] | {"needs": "p1"}])
    text, counts = proposed(tmp_path)
    assert counts == {"package": 4, "package:dependency:package": 5}
    assert "relation: {transform: one-hot}" in text


def test_two_columns_are_a_key_together(tmp_path: Path) -> None:
    houses = [{"street": street, "number": n, "floors": n} for street in ("a", "b") for n in (1, 2, 3)]
    write_parquet(tmp_path / "houses.parquet", houses)
    write_parquet(tmp_path / "people.parquet", [{"person_id": f"p{i}", "age": i} for i in range(4)])
    lives = [{"person_id": f"p{i}", "street": "ab"[i % 2], "number": 1 + i % 3} for i in range(4)]
    write_parquet(tmp_path / "lives.parquet", [*lives, lives[0] | {"number": 3}])
    roads = [{"from_street": "a", "from_number": 1 + i, "to_street": "b", "to_number": 3} for i in range(3)]
    write_parquet(tmp_path / "roads.parquet", roads)
    text, counts = proposed(tmp_path)
    assert "    key: [street, number]\n" in text
    assert {name for name in counts if ":" not in name} == {"house", "people"}
    assert sorted(count for name, count in counts.items() if ":" in name) == [3, 5]


def test_tables_that_are_left_out_are_listed_with_the_reason(tmp_path: Path) -> None:
    write_csv(tmp_path / "items.csv", ITEMS)
    write_parquet(tmp_path / "tags.parquet", TAGS)
    authors = [{"author_id": f"a{i // 3}", "rank": 0.5} for i in range(9)]
    write_csv(tmp_path / "ranks.csv", authors)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not more")
    (tmp_path / "empty.csv").write_text("one,two\n")
    text, counts = proposed(tmp_path)
    assert counts["item"] == 3
    left = text[text.index("# Left out:\n") :]
    assert "# broken.parquet: " in left and "# empty.csv: it has no rows" in left
    assert "# ranks.csv: no key: 6 rows with a value in author_id that another row has: " in left
    assert "'a0' in ranks.csv, row 0; 'a0' in ranks.csv, row 1" in left


def test_the_index_of_pandas_is_no_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user_id": ["u1", "u2"], "age": [1, 2]}, index=[7, 9])
    frame.to_parquet(tmp_path / "users.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "users.parquet").names
    pd.DataFrame({"user_id": ["u1", "u1"], "friend": ["u2", "u1"]}).to_csv(tmp_path / "friends.csv")
    text, counts = proposed(tmp_path)
    assert counts == {"user": 2, "user:friend:user": 2}
    assert "__index_level_0__" not in text and "Unnamed" not in text


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
ODD = [
    "a: b",
    "#x",
    "no",
    "null",
    "1e3",
    "- x",
    "{a}",
    "a, b",
    "'q\"",
    "*",
    "&a",
    "!t",
    "time",
    "label",
    "orig_id",
]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES | st.sampled_from(ODD), min_size=4, max_size=9, unique_by=str.lower), st.integers(0, 2))
@example(names=["0", "\x85", "00", "000"], seed=0)
def test_a_proposal_always_loads_again(tmp_path: Path, names: list[str], seed: int) -> None:
    """Whatever the columns are called: a proposal is parsed, and its tables and columns are there."""
    with TemporaryDirectory(dir=tmp_path) as name:
        folder = Path(name)
        values: list[Any] = [["k1", "k2", "k3", "k4"], [1.5, 2, None, 4], [True, None, False, True]]
        values += [["x", "y", None, "x"], [[1, 2], [3, 4], None, [5, 6]], [[1], [2, 3], [], None]]
        values += [[date(2024, 1, day) for day in (1, 2, 3, 4)], [{"a": 1}] * 4, [None] * 4]
        table = dict(zip(names, [values[0], *values[1 + seed :], *values[1 : 1 + seed]], strict=False))
        pq.write_table(pa.table(table), folder / "nodes.parquet")
        ends = {names[0]: ["k1", "k2", "k1"], names[1]: ["k3", "k4", "k4"]}
        pq.write_table(pa.table(ends | {names[2]: [1, 2, 3]}), folder / "ends.parquet")
        store = open_store(str(folder))
        try:
            text = infer_graph_file(store)
        except InvalidInputError as error:
            assert "looks like edges" in str(error)  # names that are those of DuckDB, for example
            return
        graph = parse_graph_file(text.encode(), "proposal")
        for spec in graph.types:
            if spec.table is not None:
                assert {*spec.keys, *spec.used} <= {*pq.read_schema(folder / spec.table.paths[0]).names}


def test_one_file_is_enough(tmp_path: Path, called: Called) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        connection.execute("CREATE TABLE links (a TEXT, b TEXT)")
        connection.execute("INSERT INTO links VALUES ('x', 'y'), ('y', 'z')")
        connection.commit()
    write_csv(tmp_path / "other.csv", [{"from": "1", "to": "2"}])
    printed = called("ingest", "--infer", tmp_path / "shop.sqlite")
    assert printed.returncode == 0, printed.stderr
    assert "shop.sqlite" in printed.stdout and "other" not in printed.stdout
    missing = called("ingest", "--infer", tmp_path / "shop.csv")
    assert missing.returncode == 3 and "There is no" in missing.stderr


def test_a_folder_with_one_part_has_the_name_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "cites").mkdir()
    write_parquet(tmp_path / "cites/part-0.parquet", [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}])
    graph = parse_graph_file(infer_graph_file(open_store(str(tmp_path))).encode(), "graph.yaml")
    assert [(edge.name, edge.table.paths) for edge in graph.edges if edge.table] == [
        ("node:cite:node", ("cites/*.parquet",))
    ]


def test_an_end_with_a_table_keeps_it_if_the_other_end_has_none(tmp_path: Path) -> None:
    authors = [{"author_id": f"a{n}", "age": n % 7} for n in range(50)]
    write_csv(tmp_path / "authors.csv", authors)
    writes = [{"author_id": f"a{n % 50}", "paper_id": f"p{n}", "place": n % 3} for n in range(40)]
    write_csv(tmp_path / "writes.csv", [*writes, *writes[:20]])
    graph = parse_graph_file(infer_graph_file(open_store(str(tmp_path))).encode(), "graph.yaml")
    assert {node.name: node.table is not None for node in graph.nodes} == {"author": True, "paper": False}
    assert [edge.name for edge in graph.edges] == ["author:write:paper"]
