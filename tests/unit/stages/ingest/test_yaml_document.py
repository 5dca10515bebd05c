"""``graph.yaml`` that is hostile, or that YAML reads as something else than it says."""

from __future__ import annotations

import gzip
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.ingest.graph_file import NUMBERS, parse_graph_file
from partition_ops.stages.ingest.table_source import one_statement
from partition_ops.stages.ingest.yaml_document import parse_yaml
from partition_ops.system.open_files import allow_open_files
from tests.tables import feature, ingest

GRAPH = """\
graph_name: g
nodes:
  u: {table: u.csv, key: id, features: {x: {}}}
edges:
  u:r:u: {table: e.csv, src: s, dst: d}
"""
LETTERS = "abcdefghi"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise(LETTERS)
)
HOSTILE = {
    "alias bomb": BOMB,
    "alias bomb below a name": "graph_name:\n" + "".join(f"  {line}\n" for line in BOMB.splitlines()),
    "recursive": "&a [*a]",
    "recursive mapping": "nodes: &n {u: *n}",
    "deep": "[" * 3000 + "]" * 3000,
    "deep block": "".join(f"{' ' * depth}a:\n" for depth in range(3000)),
    "digits": GRAPH.replace("x: {}", f"x: {{missing: {'9' * 5000}}}"),
    "surrogate": GRAPH.replace("x: {}", r'"\ud800": {}'),
    "code": GRAPH.replace("u.csv", '!!python/object/apply:os.system ["true"]'),
    "tag": GRAPH.replace("u.csv", "!mine u.csv"),
    "set": GRAPH.replace("key: id", "key: !!set {id}"),
    "binary": GRAPH.replace("u.csv", '!!binary "dS5jc3Y="'),
    "zero": GRAPH.replace("x: {}", r'"a\0b": {}'),
    "not a number": GRAPH.replace("x: {}", "x: {missing: .nan}"),
    "infinite": GRAPH.replace("x: {}", "x: {transform: bucket, boundaries: [1, .inf]}"),
    "list as a key": "? [a]\n: b",
    "mapping as a key": "? {a: b}\n: c",
    "twice": GRAPH + "edges: {}",
    "several": f"{GRAPH}---\n{GRAPH}",
    "not UTF-8": "\udcff",
    "many features": GRAPH.replace("x: {}", ", ".join(f"f{index}: {{column: x}}" for index in range(5_000))),
    "long name": GRAPH.replace("x: {}", f"{'n' * 300}: {{column: x}}"),
    "merge": GRAPH.replace("features: {x: {}}", "<<: {features: {x: {}}}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_rejected_at_once(name: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidInputError):
        parse_graph_file(HOSTILE[name].encode(errors="surrogateescape"), "graph.yaml")
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    "name", ["2024", "1.50", "0x10", "1_000", "1e3", "~", "null", "2024-01-01", "true", "no"]
)
def test_names_are_text_as_they_are_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text(f"id,{name},x\n1,5,6\n2,7,8\n")
    (tmp_path / "e.csv").write_text("s,d\n1,2\n")
    text = GRAPH.replace("x: {}", f"{name}: {{}}, y: {{column: x}}").replace("u:r:u", f"{name}:r:{name}")
    (tmp_path / "graph.yaml").write_text(text.replace("  u: ", f"  {name}: "))
    ingest(tmp_path, tmp_path / "graph")
    assert feature(tmp_path / "graph", name, name).tolist() == [5, 7]
    assert feature(tmp_path / "graph", name, "y").tolist() == [6, 8]


@pytest.mark.parametrize("column", ["2024", "1.50", "1e3"])
def test_columns_need_no_quotes(column: str) -> None:
    graph = parse_graph_file(GRAPH.replace("key: id", f"key: [{column}, id]").encode(), "graph.yaml")
    assert graph.nodes[0].key == (column, "id")


def test_numbers_stay_numbers() -> None:
    text = "missing: 1.5\nboundaries: [1, 2.5]\nother: [1, true, null, {shares: [0.5]}]\n"
    found = parse_yaml(text.encode(), "x", numbers=NUMBERS)
    assert found == {"missing": 1.5, "boundaries": [1, 2.5], "other": ["1", True, None, {"shares": [0.5]}]}


@given(st.text(alphabet="ab:{}[]&*!-?|>'\"#%@`, \n\t0", max_size=60) | st.binary(max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_document_is_parsed_or_rejected(document: str | bytes) -> None:
    data = document if isinstance(document, bytes) else document.encode()
    try:
        parse_yaml(data, "x", numbers=NUMBERS)
    except InvalidInputError as error:
        assert error.found


@pytest.mark.parametrize(
    "sql",
    ["SELECT ';--' AS a", 'SELECT "a;b" FROM t', "SELECT 1 -- one\n + 2", "SELECT $$;$$", "SELECT /* ; */ 1"],
)
@pytest.mark.parametrize("end", ["", ";", " ; -- end", "\n/* end */;;", ";--"])
def test_what_follows_a_query_is_left_out(sql: str, end: str) -> None:
    assert one_statement(sql + end, "x") == sql


@pytest.mark.parametrize(
    "sql", [";", "-- nothing", "", "/* open", "SELECT 1; SELECT 2", "SELECT 1;;DROP TABLE x"]
)
def test_other_numbers_of_statements_are_rejected(sql: str) -> None:
    several = r"several statements.*after the first one, '(SELECT 2|DROP TABLE x)'"
    with pytest.raises(InvalidInputError, match=rf"no statement|{several}"):
        one_statement(sql, "x")


def test_the_limit_of_open_files_is_raised_or_the_call_rejected() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        allow_open_files(2000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 2000
        if hard != resource.RLIM_INFINITY:
            with pytest.raises(UsageError, match="open enough files"):
                allow_open_files(hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_plain_file_that_is_called_gz_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "u.jsonl.gz").write_text('{"id": 1, "x": 2}\n')
    (tmp_path / "e.csv").write_text("s,d\n1,1\n")
    (tmp_path / "graph.yaml").write_text(GRAPH.replace("u.csv", "u.jsonl.gz"))
    with pytest.raises(InvalidInputError, match="not packed with gzip"):
        ingest(tmp_path, tmp_path / "graph")


@pytest.mark.parametrize(
    "url",
    ["postgresql://[::1", "postgresql://h/d?PASSWORD=s3cret", "postgresql://h/d?sslpassword=s3cret"],
)
def test_urls_that_are_wrong_or_have_secrets(url: str, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("s,d\n1,1\n")
    table = f'{{sql: SELECT 1, connection: "{url}"}}'
    (tmp_path / "graph.yaml").write_text(GRAPH.replace("u.csv", table))
    with pytest.raises(InvalidInputError) as rejected:
        ingest(tmp_path, tmp_path / "graph")
    assert "s3cret" not in str(rejected.value)


def test_a_packed_file_with_another_checksum_is_rejected(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"id,x\n1,2\n"))
    packed[-6] ^= 1
    (tmp_path / "u.csv.gz").write_bytes(bytes(packed))
    (tmp_path / "e.csv").write_text("s,d\n1,1\n")
    (tmp_path / "graph.yaml").write_text(GRAPH.replace("u.csv", "u.csv.gz"))
    with pytest.raises(InvalidInputError, match="CRC"):
        ingest(tmp_path, tmp_path / "graph")
