"""A ``graph.yaml`` as the input of the whole job, of operators and of the public API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from graph_partitioning.operators.ingest import IngestTablesOperator
from graph_partitioning.operators.schema import WriteSchemaOperator

import partition_ops
from tests.airflow_tasks import TaskInstance
from tests.command_line import Called
from tests.tables import ITEMS, RATINGS, USERS, keys, write_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and the output of ``run`` on them."""
    folder = write_shop(tmp_path_factory.mktemp("shop"))
    run(folder / "graph.yaml", folder / "out")
    return folder


def run(graph: Path, output: Path, **options: Any) -> partition_ops.RunResult:
    common = {"num_parts": 2, "on_defect": "warn", "ignore_estimate": True}
    return partition_ops.run(graph, output, **common, **options)


def test_users_keys_come_back(shop: Path, tmp_path: Path, called: Called) -> None:
    new_ids = pq.read_table(shop / "out/idmap/nodes/user.parquet").to_pydict()
    order = np.argsort(new_ids["type_new_id"])
    np.save(tmp_path / "predictions.npy", np.asarray(new_ids["orig_id"], np.float32)[order])
    target = tmp_path / "named.parquet"
    where = ["--node-type", "user", "--input", tmp_path / "predictions.npy", "--output", target]
    done = called("idmap", "restore", shop / "out", *where, "--ids-from", shop / "graph.yaml")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(target).to_pydict() == {
        "id": ["u07", "u2", "u7", "ü1"],
        "value": [0.0, 1.0, 2.0, 3.0],
    }


def test_the_output_is_verified_against_the_tables(shop: Path) -> None:
    report = partition_ops.verify(shop / "graph.yaml", shop / "out")
    assert report.passed, report.failed


def test_a_second_run_does_nothing(shop: Path) -> None:
    record = shop / "out/ingest/records/ingest.json"
    before = record.stat().st_mtime_ns
    again = run(shop / "graph.yaml", shop / "out")
    assert [task.task for task in again.tasks if not task.skipped] == []
    assert record.stat().st_mtime_ns == before


def test_a_grown_table_continues_the_run(shop: Path, tmp_path: Path) -> None:
    users = [{**USERS[0], "user_id": "a0"}, *USERS]
    write_shop(tmp_path, users=users, ratings=[*RATINGS, {**RATINGS[0], "user_id": "a0"}])
    result = run(tmp_path / "graph.yaml", tmp_path / "out", previous=shop / "out")
    assert keys(tmp_path / "out/ingest", "user") == ["u07", "u2", "u7", "ü1", "a0"]
    assert result.quality["migration"]["node_types"]["user"]["new"] == 1


def test_an_earlier_run_must_be_of_tables(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(partition_ops.InvalidInputError, match="was not made from tables"):
        run(shop / "graph.yaml", tmp_path / "out", previous=tmp_path / "other")


def test_bad_tables_are_no_traceback(tmp_path: Path, called: Called) -> None:
    write_shop(tmp_path, items=[*ITEMS, ITEMS[0]])
    refused = called("run", tmp_path / "graph.yaml", tmp_path / "out", "--num-parts", "2")
    assert refused.returncode == 3
    assert "sku '007' in items.csv, row 3" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").rglob("metadata.json")]


def test_the_operator_makes_the_graph_of_the_next_tasks(shop: Path, tmp_path: Path) -> None:
    where = {
        "input_uri": str(shop / "graph.yaml"),
        "output_uri": str(tmp_path / "out"),
        "run_id": "one",
    }
    instance = TaskInstance()
    result = instance.run(IngestTablesOperator(task_id="ingest", **where))
    assert result["counters"]["nodes"] == 9
    run_root = Path(result["output"]).parent
    assert Path(result["output"]).name == "ingest"
    assert run_root.parent == tmp_path / "out/shop/runs"
    TaskInstance().run(WriteSchemaOperator(task_id="schema", **where))
    assert (run_root / "schema/shop.json").exists()


def test_the_operator_skips_a_graph(shop: Path, tmp_path: Path) -> None:
    where = {"input_uri": str(shop / "out/ingest"), "output_uri": str(tmp_path / "out")}
    with pytest.raises(AirflowSkipException):
        TaskInstance().run(IngestTablesOperator(task_id="ingest", **where))


def test_the_operator_does_not_retry_bad_tables(tmp_path: Path) -> None:
    write_shop(tmp_path, items=[*ITEMS, ITEMS[0]])
    where = {"input_uri": str(tmp_path / "graph.yaml"), "output_uri": str(tmp_path / "out")}
    with pytest.raises(AirflowFailException, match="sku '007' in items"):
        TaskInstance().run(IngestTablesOperator(task_id="ingest", **where))
