"""Spark with two executors makes the same graph as DuckDB, to the byte. ``.ci/run`` runs this file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from partition_ops.errors import InvalidInputError
from tests.tables import ITEMS, RATINGS, USERS, contents, ingest, write_shop
from tests.unit.stages.ingest.test_ingest_problems import ABSENT, LENIENT, NO_KEY, TWICE

pytest.importorskip("pyspark")
SECONDS = 120.0
NEW = {**USERS[0], "user_id": "a1"}


@pytest.fixture(scope="module", autouse=True)
def _two_executors() -> None:
    """Start the driver, and two executors in processes of their own; `ingest` takes the session over."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    status = session.sparkContext._jsc.sc().getExecutorMemoryStatus  # type: ignore[union-attr]
    end = time.monotonic() + SECONDS
    while status().size() - 1 < 2:  # executors register after the session has been made
        assert time.monotonic() < end, f"{status().size() - 1} of 2 executors"
        time.sleep(0.5)


def test_the_graph_is_the_same(tmp_path: Path) -> None:
    grown = {"users": [NEW, *USERS], "items": ITEMS, "ratings": [*RATINGS, {**RATINGS[0], "user_id": "a1"}]}
    bad = {"users": [*USERS, NO_KEY, TWICE], "ratings": [*RATINGS, ABSENT], "graph": LENIENT}
    for engine in ("duckdb", "spark"):  # the order of rows differs, too
        seed = {"duckdb": 1, "spark": 2}[engine]
        out = tmp_path / engine
        ingest(write_shop(tmp_path / f"tables {engine}", seed=seed), out / "plain", table_engine=engine)
        grown_tables = write_shop(tmp_path / f"grown {engine}", seed=seed, **grown)  # type: ignore[arg-type]
        ingest(grown_tables, out / "grown", table_engine=engine, previous=out / "plain")
        ingest(write_shop(tmp_path / "bad", **bad), out / "bad", table_engine=engine)  # type: ignore[arg-type]
    theirs, ours = contents(tmp_path / "spark"), contents(tmp_path / "duckdb")
    assert [*theirs] == [*ours]
    may_differ = ("ingest.json", "metadata.json")  # sizes of tables, and the digest of ingest.json
    differ = [key for key in ours if ours[key] != theirs[key]]
    assert [key for key in differ if not key.endswith(may_differ)] == []


def test_bad_tables_are_said_in_the_same_words(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables", users=[*USERS, TWICE], ratings=[*RATINGS, ABSENT])
    found = []
    for engine in ("duckdb", "spark"):
        with pytest.raises(InvalidInputError) as raised:
            ingest(tmp_path / "tables", tmp_path / engine, table_engine=engine)
        found.append(str(raised.value))
    assert found[0] == found[1]
