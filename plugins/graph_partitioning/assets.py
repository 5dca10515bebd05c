"""The assets that publishing a graph updates, for the schedules of other DAGs."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from graph_partitioning.runs import graph_root

PARTITIONED_GRAPHS = Asset("partitioned_graphs")
"""Updated whenever a graph is published."""

PUBLISHED = AssetAlias("published_graphs")
"""The alias that the task `publish` declares; each run adds the asset of its graph to it."""


def published_graph(output_uri: str, graph_name: str) -> Asset:
    """Return the asset of one graph: ``Asset("<output_uri>/<graph>/latest.json")``.

    Args:
        output_uri: Output root of the partitioning DAG: ``s3://…`` or an absolute path.
        graph_name: Name of the graph.
    """
    latest = f"{graph_root(output_uri, graph_name)}/latest.json"
    return Asset(latest if "://" in latest else f"file://{latest}")
