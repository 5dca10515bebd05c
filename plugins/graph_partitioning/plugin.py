"""The Airflow plugin, which the entry point of this package names: the page and its place in the menu."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from graph_partitioning.links import PREFIX, base_path


class GraphPartitioningPlugin(AirflowPlugin):
    """The page with the artifacts of runs. The operators have the links to it.

    Every process of Airflow makes an instance, but only the API server needs the application. The web
    framework is therefore imported when the application is asked for.
    """

    name = "graph_partitioning"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from graph_partitioning.page.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "Graph partitions"}]

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return [
            {
                "name": "Graph partitions",
                "href": f"{base_path()}{PREFIX}/",
                "destination": "nav",
                "category": "browse",
                "url_route": "graph-partitions",
            }
        ]
