"""A kind of database, and one of servers, are a class each: nothing else has to know them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.ingest import sources
from partition_ops.stages.ingest.infer import infer_graph_file
from partition_ops.stages.ingest.table_source import FoundFile, Place, QuerySource
from partition_ops.storage import StoredObject, open_store
from tests.tables import ITEMS, RATINGS, ingest, keys, write_json_lines

MAGIC = b"\0LINES"
TABLES = {"items": ITEMS, "ratings": [{"user_id": row["user_id"], "sku": row["sku"]} for row in RATINGS]}
GRAPH = """\
graph_name: shop
nodes: {user: , item: {table: ITEMS, key: sku}}
edges: {user:rated:item: {table: ratings.jsonl, src: user_id, dst: sku}}
"""


class LinesSource(QuerySource):
    """A file with a document behind its magic; a query names a table."""

    name, title, magic = "lines", "Lines", (2, MAGIC)
    database_suffixes = (".lines",)
    list_tables = "the tables"

    def write_result(self, file: FoundFile) -> Path:
        tables = json.loads(file.path.read_bytes()[2 + len(MAGIC) :])
        wanted = re.fullmatch(r'SELECT \* FROM "?(\w+)"?', self.sql)
        rows = tables[wanted[1]] if wanted else [{"place": "main", "name": name} for name in tables]
        return self.write_reader(pa.Table.from_pylist(rows).to_reader())


class ServerSource(QuerySource):
    name, title, connection = "other", "Other", "other://host/database"

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        entry = StoredObject(place.spec.name, 0, "")
        found = [FoundFile(place.source, entry, place.spec.connection, {})]
        return found if place.scheme in ("other", None) else []

    def write_result(self, file: FoundFile) -> Path:
        return self.write_reader(pa.Table.from_pylist(ITEMS).to_reader())


class Entry:
    def __init__(self, kind: type[QuerySource]) -> None:
        self.kind = kind

    def load(self) -> type[QuerySource]:
        return self.kind


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "plugins", lambda group: (Entry(LinesSource), Entry(ServerSource)))


def write_database(path: Path) -> None:
    path.write_bytes(b"1 " + MAGIC + json.dumps(TABLES).encode())


def write_graph(folder: Path, items: str) -> None:
    write_json_lines(folder / "ratings.jsonl", TABLES["ratings"])
    (folder / "graph.yaml").write_text(GRAPH.replace("ITEMS", items))


def test_a_kind_of_database_is_read_and_proposed(tmp_path: Path) -> None:
    write_database(tmp_path / "shop.lines")
    text = infer_graph_file(open_store(str(tmp_path)))
    assert 'sql: SELECT * FROM "items", database: shop.lines' in text
    (tmp_path / "graph.yaml").write_text(text)
    ingest(tmp_path, tmp_path / "graph")
    assert sorted(keys(tmp_path / "graph", "item")) == sorted(row["sku"] for row in ITEMS)


def test_a_file_of_no_kind_of_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"1")
    write_graph(tmp_path, "{sql: SELECT 1, database: shop.db}")
    with pytest.raises(InvalidInputError, match=r"shop.db is not a database.*of DuckDB or SQLite or Lines"):
        ingest(tmp_path, tmp_path / "graph")


def test_a_variable_may_have_the_url_of_any_kind_of_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(tmp_path, "{sql: SELECT 1, connection: $SHOP}")
    monkeypatch.setenv("SHOP", "other://host/shop")
    ingest(tmp_path, tmp_path / "graph")
    assert sorted(keys(tmp_path / "graph", "item")) == sorted(row["sku"] for row in ITEMS)
    monkeypatch.delenv("SHOP")  # the graph is there, and no server is asked
    assert ingest(tmp_path, tmp_path / "graph").skipped
    monkeypatch.setenv("SHOP", "third://host/shop")
    with pytest.raises(UsageError, match="variable SHOP has no URL of PostgreSQL or Other"):
        ingest(tmp_path, tmp_path / "again")
