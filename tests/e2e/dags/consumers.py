"""DAGs that somebody else could have: scheduled on graphs being published."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, task
from graph_partitioning.assets import PARTITIONED_GRAPHS, published_graph

SCHEDULES = {
    "on_any_graph": PARTITIONED_GRAPHS,
    "on_this_graph": published_graph("s3://graphs/output", "small"),
    "on_this_graph_by_uri": Asset("s3://graphs/output/small/latest.json"),
    "on_another_graph": published_graph("s3://graphs/output", "another"),
}

for name, asset in SCHEDULES.items():
    with DAG(dag_id=name, schedule=[asset], catchup=False):

        @task
        def train(asset=asset, triggering_asset_events=None) -> list[dict]:
            """Return the content of the events."""
            return [event.extra for event in triggering_asset_events[asset]]

        train()
