"""The assets that publishing a graph updates, for the schedules of other DAGs."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from graph_partitioning.runs import graph_root

PARTITIONED_GRAPHS = Asset("partitioned_graphs")
"""Updated whenever any graph is published."""

PUBLISHED = AssetAlias("published_graphs")
"""What the publishing task declares; each run adds the asset of its own graph to it."""


def published_graph(output_uri: str, graph_name: str) -> Asset:
    """The asset of one graph: ``Asset("<output_uri>/<graph>/latest.json")``.

    Args:
        output_uri: The output root that the partitioning DAG is given; ``s3://…`` or an absolute path.
        graph_name: Name of the graph.
    """
    latest = f"{graph_root(output_uri, graph_name)}/latest.json"
    return Asset(latest if "://" in latest else f"file://{latest}")
