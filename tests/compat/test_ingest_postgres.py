"""Tables that are queries on a PostgreSQL server. ``.ci/install_postgres`` installs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import partition_ops
from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.jobs.changes import find_table_changes
from partition_ops.storage import open_store
from tests.tables import contents, ingest, write_parquet

psycopg = pytest.importorskip("psycopg")
PASSWORD = "s3cret/ü"
GRAPH = """\
graph_name: shop
nodes:
  user: {table: USERS, key: id, features: {age: {missing: 0}, score: , vector: , joined: }, label: plan}
edges:
  user:knows:user: {table: KNOWS, src: src, dst: dst, weight: weight}
"""
USERS = """\
CREATE TABLE users
  (id uuid, age int, score numeric(6, 2), vector real[], joined timestamptz, plan text, more point);
INSERT INTO users SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, nullif(i % 50, 7),
  i / 4.0, ARRAY[i, i / 2.0, -i],
  '2024-01-01 00:00:00+02'::timestamptz + make_interval(secs => i), 'p' || i % 3, NULL
  FROM generate_series(1, 20000) AS i;
CREATE TABLE knows (src uuid, dst uuid, weight double precision);
INSERT INTO knows SELECT a.id, b.id, 0.5 FROM users a JOIN users b ON b.age = 11 AND a.age = 12;
CREATE SEQUENCE counter;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server with tables; the URL of a user with a password."""
    binaries = [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *filter(None, [shutil.which("initdb")])]
    if not binaries:
        pytest.skip("There is no PostgreSQL: run .ci/install_postgres")
    programs = Path(binaries[0]).resolve().parent
    folder = Path(tempfile.mkdtemp(prefix="postgres_test_"))
    owner: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}  # the server refuses root
    (folder / "password").write_text(PASSWORD)
    if owner:
        shutil.chown(folder, "postgres")
        shutil.chown(folder / "password", "postgres")

    def run(program: str, *arguments: object) -> None:
        command = [programs / program, "-D", folder / "data", *map(str, arguments)]
        with (folder.parent / f"{folder.name}.log").open("a") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd=folder, **owner)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run("initdb", "-U", "shop", "-A", "scram-sha-256", "--pwfile", folder / "password", "-E", "UTF8", "-N")
    run("pg_ctl", "-w", "start", "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off")
    try:
        url = f"postgresql://shop:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(USERS)
        yield url
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)
        (folder.parent / f"{folder.name}.log").unlink()


def write(folder: Path, users: str, knows: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "graph.yaml").write_text(GRAPH.replace("USERS", users).replace("KNOWS", knows))
    return folder


def query(sql: str, connection: str) -> str:
    return f'{{sql: "{sql}", connection: {connection}}}'


def test_the_graph_is_that_of_the_same_rows_in_files(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP", server)
    tables = write(
        tmp_path / "server", query("SELECT * FROM users", "$SHOP"), query("SELECT * FROM knows;", "$SHOP")
    )
    ingest(tables, tmp_path / "of_server")
    with psycopg.connect(server, row_factory=psycopg.rows.dict_row) as connection:
        for name in ("users", "knows"):
            columns = (
                "id::text, age, score::float, vector, joined, plan"
                if name == "users"
                else "src::text, dst::text, weight"
            )
            rows = connection.execute(f"SELECT {columns} FROM {name}").fetchall()
            write_parquet(tmp_path / f"files/{name}.parquet", rows)
    ingest(write(tmp_path / "files", "users.parquet", "knows.parquet"), tmp_path / "of_files")
    ours, theirs = contents(tmp_path / "of_server"), contents(tmp_path / "of_files")
    assert [key for key in ours if ours[key] != theirs[key]] == [
        "ingest.json",
        "metadata.json",
    ]  # names of tables
    kept = b"".join(path.read_bytes() for path in (tmp_path / "of_server").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept and quote(PASSWORD, safe="").encode() not in kept
    assert ingest(tables, tmp_path / "of_server").skipped
    partition_ops.run(tables / "graph.yaml", tmp_path / "run", num_parts=2, ignore_estimate=True)
    found = find_table_changes(f"{tables}/graph.yaml", open_store(str(tmp_path / "run")), open_store)
    assert found.any and found.unknown == [
        "the query of nodes 'user'",
        "the query of edges 'user:knows:user'",
    ]
    assert not found.changed and not found.options


def test_the_password_of_libpq_is_used_and_never_shown(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = server.replace(f":{quote(PASSWORD, safe='')}@", "@")
    tables = write(tmp_path / "tables", query("SELECT * FROM users", plain), query("TABLE knows", plain))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    ingest(tables, tmp_path / "graph")
    monkeypatch.setenv("PGPASSWORD", "another one")
    with pytest.raises(StorageError, match=r"cannot be used.*password authentication failed") as refused:
        ingest(tables, tmp_path / "again")
    assert "another one" not in str(refused.value)
    wrong = server.replace("127.0.0.1", "nowhere.invalid")
    monkeypatch.setenv("SHOP", wrong)
    with pytest.raises(StorageError) as refused:
        ingest(write(tables, query("TABLE users", "$SHOP"), query("TABLE knows", plain)), tmp_path / "again")
    assert PASSWORD not in str(refused.value) and quote(PASSWORD, safe="") not in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM users", "the query on .SHOP fails.*syntax error"),
        ("SELECT nextval('counter') AS id", "fails.*read-only transaction"),
        ("SELECT * FROM nothing", 'fails.*relation "nothing" does not exist'),
        (
            "SELECT more AS id FROM users",
            "'id' of the query on .SHOP has a type that is not read.*point.*::text",
        ),
        ("SELECT age, plan FROM users", "has no column 'id'"),
    ],
)
def test_queries_that_cannot_be_tables(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, message: str
) -> None:
    monkeypatch.setenv("SHOP", server)
    tables = write(tmp_path / "tables", query(sql, "$SHOP"), query("TABLE knows", "$SHOP"))
    (tables / "graph.yaml").write_text(
        (tables / "graph.yaml").read_text().split(", features")[0]
        + "}\nedges:\n"
        + (tables / "graph.yaml").read_text().split("edges:\n")[1]
    )
    with pytest.raises(InvalidInputError, match=message):
        ingest(tables, tmp_path / "graph")
