"""Lineage of a published run, from tables or a graph to the partitions, as OpenLineage's provider gets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from graph_partitioning.lineage import dataset_name, inputs_of, types_of
from graph_partitioning.operators.ingest import IngestTablesOperator
from graph_partitioning.operators.publish import PublishRunOperator
from graph_partitioning.runs import run_root
from openlineage.client.serde import Serde

from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from tests.airflow_tasks import TaskInstance
from tests.tables import write_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Store]:
    """A graph made from tables and partitioned, but not published: where it is, and its run."""
    folder = tmp_path_factory.mktemp("lineage")
    tables = str(write_shop(folder / "tables") / "graph.yaml")
    where = {"input_uri": tables, "output_uri": str(folder / "out"), "run_id": "one"}
    TaskInstance().run(IngestTablesOperator(task_id="ingest", **where))
    run = open_store(run_root(where["output_uri"], "shop", "one"))
    config = RunConfig(num_parts=2, engine="random", on_defect={"duplicate_edges": "warn"})
    run_job(config, run.child("ingest"), run)
    return where, run


def test_inputs_are_the_tables_or_the_graph(shop: tuple[dict[str, Any], Store]) -> None:
    where, run = shop
    folder = Path(where["input_uri"]).parent
    found = inputs_of(run, where["input_uri"])
    assert found and all(Path(one).is_file() and Path(one).is_relative_to(folder) for one in found)
    assert {Path(one).name for one in found} >= {"items.csv", "ratings.jsonl"}
    assert inputs_of(run, "s3://graphs/citations/") == ["s3://graphs/citations"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://graphs/a/b.parquet", ("s3://graphs", "a/b.parquet")),
        ("s3://graphs", ("s3://graphs", "/")),
        ("/data/a.csv", ("file", "/data/a.csv")),
        ("file:///data/a.csv", ("file", "/data/a.csv")),
        ("postgresql://ann@host:5432/shop?sslmode=require", ("postgresql://host:5432", "shop")),
        ("$SHOP", ("env", "SHOP")),
    ],
)
def test_names_are_those_of_openlineage(uri: str, expected: tuple[str, str]) -> None:
    assert dataset_name(uri) == expected


def test_the_schema_has_types_with_features(shop: tuple[dict[str, Any], Store]) -> None:
    found = {one["name"]: one for one in types_of(read_validation_report(shop[1]))}
    assert found["item"]["features"] == [("price", "int64"), ("brand", "int64")]
    assert ("country", "float32[2]") in found["user"]["features"]
    assert found["user"]["description"] == "4 nodes"
    rated = found["user:rated:item"]
    assert (rated["type"], rated["features"]) == ("edge type", [("weight", "float64"), ("time", "int64")])


def test_the_provider_gets_its_own_objects(shop: tuple[dict[str, Any], Store]) -> None:
    where, run = shop
    operator = PublishRunOperator(task_id="publish", **where)
    TaskInstance().run(operator)
    lineage = DefaultExtractor(operator).extract_on_complete(None)
    assert sorted((one.namespace, one.name) for one in lineage.inputs) == [
        ("file", uri) for uri in inputs_of(run, where["input_uri"])
    ]
    (output,) = (Serde.to_dict(one) for one in lineage.outputs)
    assert output["name"] == f"{where['output_uri']}/shop"
    assert output["facets"]["version"]["datasetVersion"] == run.uri.rpartition("/")[2]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    names = [one["name"] for one in output["facets"]["schema"]["fields"]]
    assert names == ["user", "item", "tag", "user:rated:item", "item:has:tag"]
