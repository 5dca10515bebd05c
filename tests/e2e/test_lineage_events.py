"""The event of a published run reaches the transport of OpenLineage's provider, from a real task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_stack.airflow import BUCKET
from partition_ops.storage import open_store
from tests.e2e.airflow_site import INPUT, Run, Site, lineage_file, wait_until

pytestmark = pytest.mark.e2e


def test_publish_tells_where_the_partitions_come_from(site: Site, published: Run) -> None:
    def events() -> list[dict[str, Any]]:
        file = lineage_file(site.folders)
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [one for one in found if one["eventType"] == "COMPLETE" and one.get("outputs")]

    of_run = f"/runs/{published.root.rpartition('/')[2]}"
    wait_until(lambda: [one for one in events() if of_run.endswith(_version(one))])
    (event,) = [one for one in events() if of_run.endswith(_version(one))]
    assert event["job"]["name"] == "partition_graph.publish"
    names = [(one["namespace"], one["name"]) for one in (*event["inputs"], *event["outputs"])]
    root = published.root.partition("/runs/")[0]
    assert names == [(f"s3://{BUCKET}", uri.removeprefix(f"s3://{BUCKET}/")) for uri in (INPUT, root)]
    with open_store(published.root, site.s3.settings()) as store:
        edges = store.read_json("quality/report.json")["num_edges"]
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == edges


def _version(event: dict[str, Any]) -> str:
    return str(event["outputs"][0]["facets"]["version"]["datasetVersion"])
