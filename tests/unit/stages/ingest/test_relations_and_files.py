"""Tables of several relations, queries on files, CSV without a header, encodings and JSON arrays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import open_store
from tests.tables import edges, feature, ingest, keys, write_csv, write_parquet

TRIPLES = """\
graph_name: facts
nodes: {entity: }
edges:
  entity:*:entity:
    table: {path: facts.tsv, columns: [head, rel, tail, weight]}
    src: head
    relation: rel
    dst: tail
    weight: weight
"""
FACTS = [
    ("berlin", "in", "germany", 1.5),
    ("germany", "borders", "france", 2.5),
    ("paris", "in", "france", 3.5),
    ("paris", "/geo/part:of", "france", 4.5),
    ("bonn", "in", "germany", 0.5),
]


def write_facts(folder: Path, facts: Any = FACTS, graph: str = TRIPLES) -> Path:
    folder.mkdir(exist_ok=True)
    lines = ("\t".join("" if one is None else str(one) for one in row) for row in facts)
    (folder / "facts.tsv").write_text("".join(f"{line}\n" for line in lines))
    (folder / "graph.yaml").write_text(graph)
    return folder


def test_each_value_of_a_column_is_an_edge_type(tmp_path: Path) -> None:
    ingest(write_facts(tmp_path / "a"), tmp_path / "graph")
    graph = tmp_path / "graph"
    assert keys(graph, "entity") == ["berlin", "bonn", "france", "germany", "paris"]
    document = json.loads((graph / "metadata.json").read_text())
    names = ["entity:%2Fgeo%2Fpart%3Aof:entity", "entity:borders:entity", "entity:in:entity"]
    assert document["edge_type"] == names and document["num_edges_per_type"] == [1, 1, 3]
    assert edges(graph, names[2]) == [(0, 3), (1, 3), (4, 2)]
    assert feature(graph, names[2], "weight", edges=True).tolist() == [1.5, 0.5, 3.5]
    ingest(write_facts(tmp_path / "b", FACTS[::-1]), tmp_path / "other")
    assert edges(tmp_path / "other", names[2]) == edges(graph, names[2])


def test_many_relations_equal_a_table_for_each(tmp_path: Path) -> None:
    facts = [(f"e{i % 97}", f"r{i * i % 31}", f"e{i * 7 % 89}", i / 2) for i in range(5000)]
    ingest(write_facts(tmp_path / "facts", facts), tmp_path / "graph")
    relations = sorted({fact[1] for fact in facts})
    one = TRIPLES.partition("edges:")[0] + "edges:\n"
    for relation in relations:
        rows = [fact for fact in facts if fact[1] == relation]
        write_csv(
            tmp_path / "facts" / f"{relation}.csv",
            [{"head": a, "tail": b, "weight": w} for a, _, b, w in rows],
        )
        one += (
            f"  entity:{relation}:entity: {{table: {relation}.csv, src: head, dst: tail, weight: weight}}\n"
        )
    (tmp_path / "facts/graph.yaml").write_text(one)
    ingest(tmp_path / "facts", tmp_path / "expected")
    for relation in relations:
        name = f"entity:{relation}:entity"
        assert edges(tmp_path / "graph", name) == edges(tmp_path / "expected", name)
        found = feature(tmp_path / "graph", name, "weight", edges=True)
        assert (found == feature(tmp_path / "expected", name, "weight", edges=True)).all()


def test_relations_have_reverse_edges_and_splits_of_their_own(tmp_path: Path) -> None:
    more = "    reverse: not_*\n    split: {shares: [0.5, 0.25, 0.25]}\n"
    ingest(write_facts(tmp_path / "facts", graph=TRIPLES + more), tmp_path / "graph")
    with open_store(str(tmp_path / "graph")) as source:
        metadata = load_metadata(source)
    assert metadata.reverse_edges["entity:in:entity"] == "entity:not_in:entity"
    assert len(metadata.edge_types) == 6
    assert feature(tmp_path / "graph", "entity:in:entity", "train_mask", edges=True).shape == (3,)


@pytest.mark.parametrize(
    ("facts", "change", "message"),
    [
        (
            [*FACTS, ("x", None, "y", 1)],
            ("", ""),
            "1 row .*without a key in rel: rel null in facts.tsv, row 5",
        ),
        (
            [*FACTS, ("x", " ", "y", 1)],
            ("", ""),
            "cannot be names of edge types.*rel ' ' in facts.tsv, row 5",
        ),
        ([*FACTS, ("x", "r" * 300, "y", 1)], ("", ""), "cannot be names of edge types.*row 5"),
        (FACTS, ("entity:*:", "entity:fact:"), "'relation' makes an edge type of each value.*'fact'"),
        (FACTS, ("relation: rel", "relation: kind"), "no column 'kind'"),
        (FACTS, ("[head, rel, tail, weight]", "[head, rel, tail]"), "4 in the first line.*expected: 3|4 in"),
        (FACTS, ("rel, tail", "head, tail"), "'columns' has a name twice"),
        (FACTS, ("weight]}", "weight], encoding: klingon}"), "no such encoding.*'klingon'"),
        (FACTS, ("    relation", "    reverse: back\n    relation"), "no place for the relation"),
        (
            FACTS,
            ("edges:\n", "edges:\n  entity:in:entity: {table: facts.tsv, src: head, dst: tail}\n"),
            "has no column 'head'",
        ),
    ],
)
def test_messages(tmp_path: Path, facts: Any, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        ingest(write_facts(tmp_path / "facts", facts, TRIPLES.replace(*change, 1)), tmp_path / "graph")


def test_lost_edges_are_named_by_relation(tmp_path: Path) -> None:
    graph = TRIPLES.replace("{entity: }", "{entity: {table: e.csv, key: name}}")
    folder = write_facts(tmp_path / "facts", graph=graph)
    write_csv(folder / "e.csv", [{"name": name} for name in ("berlin", "germany", "bonn", "france")])
    with pytest.raises(
        InvalidInputError, match=r"1 row of facts.tsv \(edges 'entity:in:entity'\)"
    ) as refused:
        ingest(folder, tmp_path / "graph")
    assert "head 'paris' in facts.tsv, row 2" in str(refused.value)
    assert "head 'paris' in facts.tsv, row 3" in str(refused.value)  # of the other relation


QUERY = """\
graph_name: shop
nodes: {user: , item: }
edges:
  user:bought:item:
    table:
      sql: >
        SELECT e.user_id, i.sku, count(*) AS times FROM 'events/*.parquet' e
        JOIN 'items.csv' AS i ON e.item = i.number WHERE e.kind = 'it''s bought' GROUP BY ALL
    src: user_id
    dst: sku
    features: {times: }
"""


def write_events(folder: Path, query: str = QUERY) -> Path:
    folder.mkdir()
    kinds = ("it's bought", "seen")
    events = [{"user_id": f"u{i % 3}", "item": i % 2, "kind": kinds[i % 5 == 0]} for i in range(20)]
    write_parquet(folder / "events/a.parquet", events[:9])
    write_parquet(folder / "events/b.parquet", events[9:])
    write_csv(folder / "items.csv", [{"number": i, "sku": f"sku{i}"} for i in range(2)])
    write_csv(folder / "secret.csv", [{"user_id": "x", "sku": "y", "times": 1}])
    (folder / "graph.yaml").write_text(query)
    return folder


def test_a_query_reads_the_files_that_it_names(tmp_path: Path) -> None:
    result = ingest(write_events(tmp_path / "shop"), tmp_path / "graph")
    assert result.counters["edges"] == 6
    times = feature(tmp_path / "graph", "user:bought:item", "times", edges=True)
    assert times.sum() == 16 and keys(tmp_path / "graph", "item") == ["sku0", "sku1"]
    assert ingest(tmp_path / "shop", tmp_path / "graph").skipped
    write_parquet(tmp_path / "shop/events/c.parquet", [{"user_id": "u9", "item": 1, "kind": "it's bought"}])
    assert ingest(tmp_path / "shop", tmp_path / "graph").counters["edges"] == 7  # it is an input


def test_types_of_a_query_are_those_of_its_files(tmp_path: Path) -> None:
    """Without types, keys of CSV have the type that is found from their values."""
    sql = "SELECT a, b FROM 'pairs.csv' WHERE c > 1"
    for name, types, expected in (("plain", "", [7]), ("typed", ", types: {a: text, c: int64}", ["7"])):
        (tmp_path / name).mkdir()
        write_csv(tmp_path / name / "pairs.csv", [{"a": "7", "b": "x", "c": c} for c in (1, 2)])
        table = f'{{sql: "{sql}"{types}}}'
        edge = f"{{table: {table}, src: a, dst: b}}"
        (tmp_path / name / "graph.yaml").write_text(
            f"graph_name: g\nnodes: {{p: , q: }}\nedges: {{'p:k:q': {edge}}}\n"
        )
        ingest(tmp_path / name, tmp_path / f"graph {name}")
        assert keys(tmp_path / f"graph {name}", "p") == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM 'items.csv' WHERE sku IN (SELECT sku FROM read_csv('{folder}/secret.csv'))",
            "secret",
        ),
        ("SELECT * FROM 'items.csv'; DROP TABLE x", "several statements"),
        ("SELECT * FROM 'none/*.csv'", "there is no table none"),
        ("SELECT 1 AS user_id", "names neither a file nor"),
        ("SELECT nothing FROM 'items.csv'", "nothing"),
        ("COPY (SELECT 1) TO '{folder}/new.csv'", "names neither a file nor"),
    ],
)
def test_a_query_reads_nothing_else(tmp_path: Path, sql: str, message: str) -> None:
    folder = write_events(tmp_path / "shop")
    table = json.dumps({"sql": sql.format(folder=folder)})
    edge = f"{{table: {table}, src: user_id, dst: sku}}"
    graph = f"graph_name: g\nnodes: {{a: , b: }}\nedges: {{'a:r:b': {edge}}}\n"
    (folder / "graph.yaml").write_text(graph)
    with pytest.raises(InvalidInputError, match=message):
        ingest(folder, tmp_path / "graph")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_in_another_encoding(tmp_path: Path, encoding: str, kind: str) -> None:
    rows = [("Zoë", "Jürgen"), ("Jürgen", "Ça")]
    text = "".join(f"{a},{b}\n" for a, b in rows)
    if kind == "json":
        text = json.dumps([{"a": a, "b": b} for a, b in rows], ensure_ascii=False, indent=1)
    (tmp_path / f"names.{kind}").write_bytes(text.encode(encoding))
    columns = ", columns: [a, b]" if kind == "csv" else ""
    table = f"{{path: names.{kind}, encoding: {encoding}{columns}}}"
    edge = f"{{table: {table}, src: a, dst: b}}"
    graph = f"graph_name: g\nnodes: {{p: }}\nedges: {{'p:k:p': {edge}}}\n"
    (tmp_path / "graph.yaml").write_text(graph)
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "p") == sorted(["Zoë", "Jürgen", "Ça"])
    if encoding != "utf-16":
        (tmp_path / "graph.yaml").write_text(graph.replace(f"encoding: {encoding}", "encoding: ascii"))
        with pytest.raises(InvalidInputError, match=r"not text in ascii.*b'\\xeb'"):
            ingest(tmp_path, tmp_path / "other")


def test_an_array_of_json_documents_is_a_table(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "x", "w": [1.0, 2.0]}, {"a": 2, "b": "y", "w": [3.0, 4.0]}]
    (tmp_path / "rows.json").write_text("\n " + json.dumps(rows))
    table = "{table: rows.json, src: a, dst: b, features: {w: }}"
    (tmp_path / "graph.yaml").write_text(f"graph_name: g\nnodes: {{p: , q: }}\nedges: {{'p:k:q': {table}}}\n")
    ingest(tmp_path, tmp_path / "graph")
    assert feature(tmp_path / "graph", "p:k:q", "w", edges=True).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert keys(tmp_path / "graph", "p") == [1, 2]


@pytest.mark.parametrize(
    ("files", "table", "message"),
    [
        ({"u.csv": b"a,likes\nb,hates\n"}, "u.csv", "'id'.*of a file without a header in 'columns'"),
        ({"u.csv": b"id\nx\n"}, "{path: u.csv, encoding: utf-16}", "is not text in utf-16.*BOM.*'encoding'"),
        ({"u.csv": b"id\n\xff\n"}, "u.csv", "cannot be read.*'encoding'"),
        ({"u.json": b"[1, 2]"}, "u.json", "'id'.*write each row as an object with columns"),
        ({"u.csv": b"id\nx\n"}, "{sql: SELECT ids FROM 'u.csv'}", "cannot be read.*ids.*Correct the query"),
    ],
    ids=["header", "mark", "utf-8", "rows", "query"],
)
def test_what_a_newcomer_writes_wrongly(
    tmp_path: Path, files: dict[str, bytes], table: str, message: str
) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "e.csv").write_text("a,b\nx,x\n")
    (tmp_path / "graph.yaml").write_text(
        f"graph_name: g\nnodes: {{u: {{table: {table}, key: id}}}}\n"
        "edges: {'u:r:u': {table: e.csv, src: a, dst: b}}\n"
    )
    with pytest.raises(InvalidInputError) as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert re.search(message, f"{refused.value} {refused.value.remedy}", re.DOTALL), refused.value
