"""A ``graph.yaml`` as the input of the whole job, of operators and of the public API."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from deltalake import write_deltalake
from graph_partitioning.operators.ingest import IngestTablesOperator
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.operators.repartition import LookForChangesOperator
from graph_partitioning.operators.schema import WriteSchemaOperator

import partition_ops
import partition_ops.ingest
from partition_ops.artifacts.run_figures import seconds_by_stage
from partition_ops.jobs.changes import find_table_changes
from partition_ops.jobs.open_graph import check_continues, open_graph
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.system.json_documents import check_document
from tests.airflow_tasks import TaskInstance
from tests.command_line import Called, call
from tests.tables import (
    ITEMS,
    RATINGS,
    SHOP,
    TAGS,
    USERS,
    contents,
    ingest,
    keys,
    write_csv,
    write_parquet,
    write_shop,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and the output of ``run`` on them."""
    folder = write_shop(tmp_path_factory.mktemp("shop"))
    run(folder / "graph.yaml", folder / "out")
    return folder


def run(graph: Path | str, output: Path | str, **options: Any) -> partition_ops.RunResult:
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


def test_ingest_is_among_the_seconds_of_a_run(shop: Path) -> None:
    found = seconds_by_stage(open_store(str(shop / "out")))
    record = json.loads((shop / "out/ingest/records/ingest.json").read_text())
    assert next(iter(found)) == "ingest"
    assert found["ingest"] == round(record["seconds"], 3) > 0


def test_a_run_that_is_rejected_names_the_rows_of_the_table(tmp_path: Path, called: Called) -> None:
    (tmp_path / "facts.csv").write_text("s,o\nann,bob\nbob,cy\nann,bob\n")
    (tmp_path / "graph.yaml").write_text(
        "graph_name: facts\nnodes: {person: }\n"
        "edges: {'person:knows:person': {table: facts.csv, src: s, dst: o}}\n"
    )
    done = called("run", tmp_path / "graph.yaml", tmp_path / "out", "--num-parts", 2)
    assert done.returncode == 3
    assert "'ann' -> 'bob', in facts.csv, rows 0 and 2" in done.stderr


def test_the_output_is_verified_against_the_tables(shop: Path) -> None:
    report = partition_ops.verify(shop / "graph.yaml", shop / "out")
    assert report.passed, report.failed


def test_a_copy_of_a_run_can_be_published(shop: Path, tmp_path: Path, called: Called) -> None:
    """Its files have other times, and the same content."""
    copy = shutil.copytree(shop / "out", tmp_path / "out")
    (copy / "manifest.json").unlink()
    done = called("publish", shop / "graph.yaml", "--output", copy)
    assert done.returncode == 0, done.stderr
    found, made = (json.loads((out / "manifest.json").read_bytes()) for out in (copy, shop / "out"))
    assert found["artifacts"] == made["artifacts"]


@pytest.mark.parametrize("key", ["ingest/metadata.json", "ingest/edges/user:rated:item-0.parquet"])
def test_damaged_chunks_of_a_run_are_made_again(shop: Path, key: str, tmp_path: Path) -> None:
    copy = shutil.copytree(shop / "out", tmp_path / "out")
    whole = (copy / key).read_bytes()
    (copy / key).write_bytes(whole[:40] + b"#" + whole[41:])
    run(shop / "graph.yaml", copy, check_artifacts=True)
    assert (copy / key).read_bytes() == whole
    assert partition_ops.verify(shop / "graph.yaml", copy).passed


def test_an_estimate_counts_reverse_edges_whatever_the_output_has(shop: Path, called: Called) -> None:
    words = ["estimate", shop / "graph.yaml", "--output", shop / "out", "--num-parts", 2, "--json"]
    plain, more = (json.loads(called(*words, *options).stdout) for options in ([], ["--reverse-edges"]))
    assert more["edges"] == 2 * plain["edges"]


def test_a_second_run_does_nothing(shop: Path) -> None:
    record = shop / "out/ingest/records/ingest.json"
    before = record.stat().st_mtime_ns
    again = run(shop / "graph.yaml", shop / "out")
    assert [task.task for task in again.tasks if not task.skipped] == []
    assert record.stat().st_mtime_ns == before


def test_a_grown_table_continues_the_run(shop: Path, tmp_path: Path, called: Called) -> None:
    users = [{**USERS[0], "user_id": "a0"}, *USERS]
    write_shop(tmp_path, users=users, ratings=[*RATINGS, {**RATINGS[0], "user_id": "a0"}])
    result = run(tmp_path / "graph.yaml", tmp_path / "out", previous=shop / "out")
    assert keys(tmp_path / "out/ingest", "user") == ["u07", "u2", "u7", "ü1", "a0"]
    assert result.quality["migration"]["node_types"]["user"]["new"] == 1
    assert changes(tmp_path / "graph.yaml", tmp_path / "out", called)["unchanged_since"]
    write_csv(tmp_path / "items.csv", [{**ITEMS[0], "sku": "0"}, *ITEMS])
    found = changes(tmp_path / "graph.yaml", tmp_path / "out", called)
    assert (found["changed"], found["added"], found["removed"]) == (["items.csv"], [], [])
    assert found["unchanged"] == 4 and found["compared"] == 0


def test_changes_name_tables_and_types(shop: Path, tmp_path: Path, called: Called) -> None:
    tables = shutil.copytree(shop, tmp_path / "tables", ignore=shutil.ignore_patterns("out"))
    run(tables / "graph.yaml", tmp_path / "out", reverse_edges=True)
    assert changes(tables / "graph.yaml", tmp_path / "out", called)["unchanged_since"]
    write_parquet(tables / "users/c.parquet", USERS[:1])
    (tables / "users/a.parquet").unlink()
    text = (tables / "graph.yaml").read_text()
    (tables / "graph.yaml").write_text(
        text.replace("boundaries: [10, 20]", "boundaries: [10]").replace("  tag:\n", "  tag:\n  shelf:\n")
        + "  item:on:shelf: {table: tags.parquet, src: sku, dst: tag}\n"
    )
    found = changes(tables / "graph.yaml", tmp_path / "out", called)
    assert (found["added"], found["removed"]) == (["users/c.parquet"], ["users/a.parquet"])
    assert found["options"] == [
        "graph.yaml: edges 'item:on:shelf' is new",
        "graph.yaml: nodes 'item' has changed",
        "graph.yaml: nodes 'shelf' is new",
    ]
    refused = called("changes", shop / "graph.yaml", tmp_path / "out/ingest")
    assert refused.returncode == 3 and "not a finished output" in refused.stderr


def test_changes_do_not_read_tables(shop: Path, tmp_path: Path) -> None:
    tables = shutil.copytree(shop, tmp_path / "tables", ignore=shutil.ignore_patterns("out"))
    run(tables / "graph.yaml", tmp_path / "out")
    (tables / "tags.parquet").write_bytes(b"which ingest could not read")
    found = find_table_changes(f"{tables}/graph.yaml", open_store(str(tmp_path / "out")), open_store)
    assert found.changed == ["tags.parquet"] and found.unchanged == 4


def test_changes_compare_with_an_input_of_the_same_kind(shop: Path, tmp_path: Path, called: Called) -> None:
    saved = tmp_path / "shop.bin"
    import_dgl().save_graphs(str(saved), [partition_ops.ingest.to_dgl(shop / "graph.yaml")])
    run(saved, tmp_path / "out")
    assert changes(saved, tmp_path / "out", called)["unchanged_since"]
    refused = called("changes", shop / "graph.yaml", tmp_path / "out")
    assert refused.returncode == 3 and "was not made of such a file" in refused.stderr
    saved.write_bytes(b"another one")
    assert changes(saved, tmp_path / "out", called)["changed"] == ["shop.bin"]


def test_changes_of_a_graph_that_was_ingested_before_the_run(
    shop: Path, tmp_path: Path, called: Called
) -> None:
    write_shop(tmp_path, users=[{**USERS[0], "user_id": "a0"}, *USERS])
    ingest(tmp_path, tmp_path / "graph", previous=shop / "out/ingest")
    run(tmp_path / "graph", tmp_path / "out", engine="random")
    assert changes(tmp_path / "graph.yaml", tmp_path / "out", called)["unchanged_since"]
    assert partition_ops.verify(tmp_path / "graph.yaml", tmp_path / "out").passed


def changes(graph: Path, output: Path, called: Called) -> Any:
    done = called("changes", graph, output, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_earlier_run_must_be_of_tables(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(partition_ops.InvalidInputError, match="was not made from tables"):
        run(shop / "graph.yaml", tmp_path / "out", previous=tmp_path / "other")


def test_bad_tables_are_no_traceback(tmp_path: Path, called: Called) -> None:
    write_shop(tmp_path, items=[*ITEMS, ITEMS[0]])
    refused = call("run", tmp_path / "graph.yaml", tmp_path / "out", "--num-parts", "2")
    assert refused.returncode == 3
    assert "sku '007' in items.csv, row 3" in refused.stderr
    first, *more = refused.stderr.splitlines()
    assert first.startswith("partition-ops: error: ") and all(line.startswith("  ") for line in more)
    report = json.loads((tmp_path / "out/ingest/validation/report.json").read_text())
    check_document(report, "validation_report", where="the report")
    assert not report["passed"] and report["num_nodes"] == {"user": 4, "item": 3, "tag": 2}
    (defect,) = report["defects"]
    assert (defect["check"], defect["name"], defect["action"]) == ("ingest", "item", "fail")
    assert "sku '007' in items.csv, row 3" in defect["examples"][1]["sentence"]
    write_shop(tmp_path)
    assert called("ingest", tmp_path / "graph.yaml", tmp_path / "out/ingest").returncode == 0
    assert not (tmp_path / "out/ingest/validation").exists()


def test_tables_without_an_output_are_rejected_alike(tmp_path: Path, called: Called) -> None:
    write_shop(tmp_path, items=[*ITEMS, ITEMS[0]])
    refused = called("schema", tmp_path / "graph.yaml", "--output", tmp_path / "schema.json")
    assert refused.returncode == 3
    assert "sku '007' in items.csv, row 3" in refused.stderr
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
    docs = tmp_path / "out/ingest/validation/data_docs"
    assert (docs / "index.html").exists()
    pages = [path.read_text() for path in docs.rglob("validations/**/*.html")]
    assert any("item" in page and "ingest" in page for page in pages)


def test_a_run_continues_the_run_that_its_tables_have_continued(shop: Path, tmp_path: Path) -> None:
    write_shop(tmp_path, ratings=[*RATINGS, RATINGS[0]])
    ingest_into = tmp_path / "out/ingest"
    ingest(tmp_path, ingest_into, previous=shop / "out/ingest")
    check_continues(open_store(str(tmp_path / "out")), open_store(str(shop / "out")))
    where = {"input_uri": str(tmp_path / "graph.yaml"), "output_uri": str(tmp_path / "out")}
    published_since = shutil.copytree(shop / "out", tmp_path / "newer")
    ingest(tmp_path, published_since / "ingest")
    operator = PartitionNodesOperator(
        task_id="partition", previous=str(published_since), num_parts=2, **where
    )
    with pytest.raises(Exception, match="do not have the IDs of the run that is to be continued"):
        TaskInstance().run(operator)


def test_a_list_of_graphs_compares_the_files_of_tables(shop: Path, tmp_path: Path) -> None:
    tables = shutil.copytree(shop, tmp_path / "tables", ignore=shutil.ignore_patterns("out"))
    graph = {
        "storage_conn_id": None,
        "num_parts": 2,
        "input_uri": str(tables / "graph.yaml"),
        "output_uri": str(tmp_path / "site"),
    }

    def look(instance: TaskInstance) -> Any:
        return instance.run(LookForChangesOperator(task_id="changes", graph=graph))

    instance = TaskInstance()
    assert look(instance)["previous"] == ""
    assert "no published run yet" in instance.xcoms["reason"]
    root = tmp_path / "site/shop"
    run(tables / "graph.yaml", root / "runs/one")
    pointer = {"version": 1, "graph_name": "shop", "run_id": "one", "run": "runs/one", "num_parts": 2}
    pointer |= {"manifest": "runs/one/manifest.json", "partition_config": "partitions/shop.json"}
    (root / "latest.json").write_text(json.dumps(pointer))
    graph["on_defect"] = "warn"
    with pytest.raises(AirflowSkipException, match=r"none of \d+ input files has changed"):
        look(instance)
    write_csv(tables / "items.csv", [*ITEMS, {**ITEMS[0], "sku": "new"}])
    assert look(instance)["previous"] == "latest"
    assert "1 changed (items.csv)" in instance.xcoms["reason"]
    (tables / "tags.parquet").unlink()
    assert look(instance)["previous"] == "latest"
    assert "there is no table tags.parquet" in instance.xcoms["reason"]


def test_changes_of_tables_on_s3(s3_root: str, s3_settings: StorageSettings, tmp_path: Path) -> None:
    local, opened = write_shop(tmp_path), partial(open_store, settings=s3_settings)
    with opened(f"{s3_root}/tables") as tables, opened(f"{s3_root}/ratings") as ratings:
        for path in local.rglob("*.*"):
            tables.write_bytes(path.relative_to(local).as_posix(), path.read_bytes())
        elsewhere = SHOP.replace("ratings.jsonl", f"{s3_root}/ratings/*.jsonl")
        tables.write_bytes("graph.yaml", elsewhere.encode())
        ratings.write_bytes("1.jsonl", (local / "ratings.jsonl").read_bytes())
        where = f"{s3_root}/tables/graph.yaml"
        run(where, f"{s3_root}/out", storage=s3_settings, engine="random")
        with opened(f"{s3_root}/out") as output:
            assert not find_table_changes(where, output, opened).any
            ratings.write_bytes("1.jsonl", (local / "ratings.jsonl").read_bytes().replace(b"4.5", b"4.0"))
            tables.write_bytes("users/c.parquet", b"not read")
            found = find_table_changes(where, output, opened)
            assert found.changed == [f"{s3_root}/ratings/1.jsonl"] and found.added == ["users/c.parquet"]


def test_tables_and_graphs_on_s3(s3_root: str, s3_settings: StorageSettings, tmp_path: Path) -> None:
    local = write_shop(tmp_path / "tables")
    ingest(local, tmp_path / "graph")
    write_deltalake(str(local / "tags"), pa.Table.from_pylist(TAGS))
    with open_store(f"{s3_root}/tables", s3_settings) as tables:
        for path in local.rglob("*.*"):
            tables.write_bytes(path.relative_to(local).as_posix(), path.read_bytes())
        elsewhere = SHOP.replace("ratings.jsonl", f"{s3_root}/ratings/*.jsonl").replace(
            "tags.parquet", "tags"
        )
        tables.write_bytes("graph.yaml", elsewhere.encode())
    with open_store(f"{s3_root}/ratings", s3_settings) as ratings:
        ratings.write_bytes("1.jsonl", (local / "ratings.jsonl").read_bytes())
    where, opened = f"{s3_root}/tables/graph.yaml", partial(open_store, settings=s3_settings)
    with open_store(f"{s3_root}/out", s3_settings) as output:
        with open_graph(where, opened, output=output) as graph:
            assert graph.uri == f"{s3_root}/out/ingest"
            found = {
                entry.key: graph.read_bytes(entry.key)
                for entry in graph.list()
                if entry.key.split("/")[0]
                not in ("records", "ingest.json", "metadata.json", "partition-ops.json")
            }
            record = graph.read_json("records/ingest.json")
        with open_graph(where, opened, output=output) as graph:
            assert graph.read_json("records/ingest.json") == record  # it was not done again
    expected = contents(tmp_path / "graph")
    assert found == {key: expected[key] for key in found} and len(found) > 15
    with open_store(f"{s3_root}/ratings", s3_settings) as ratings:
        ratings.write_bytes("2.jsonl", b'{"user_id": "nobody", "sku": "7", "stars": 1, "at": null}\n')
    saved = partition_ops.ingest.to_dgl(local / "graph.yaml")
    import_dgl().save_graphs(str(tmp_path / "shop.bin"), [saved])
    with open_store(f"{s3_root}/saved", s3_settings) as folder:
        folder.write_bytes("shop.bin", (tmp_path / "shop.bin").read_bytes())
    read = partition_ops.ingest.to_dgl(f"{s3_root}/saved/shop.bin", storage=s3_settings)
    assert read.num_nodes() == saved.num_nodes() == 9
    partition_ops.ingest.from_dgl(read).write(f"{s3_root}/written", storage=s3_settings)
    again = partition_ops.ingest.to_pyg(f"{s3_root}/written", storage=s3_settings)
    assert again["user"]["age"].tolist() == saved.nodes["user"].data["age"].tolist()
    with pytest.raises(partition_ops.InvalidInputError, match=r"'nobody' in s3://\S+/ratings/2.jsonl, row 0"):
        partition_ops.ingest.to_dgl(where, storage=s3_settings)
