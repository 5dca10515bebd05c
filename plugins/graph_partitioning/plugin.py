"""The Airflow plugin, which the entry point of this package names: the page and its place in the menu."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from graph_partitioning.links import PREFIX, base_path


class GraphPartitioningPlugin(AirflowPlugin):
    """The pages of graphs and of the artifacts of runs. The operators have links to the latter.

    Every process of Airflow makes an instance, but only the API server needs the application. The web
    framework is therefore imported when the application is asked for.
    """

    name = "graph_partitioning"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from graph_partitioning.page.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "Graphs"}]

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        page = f"{base_path()}{PREFIX}/"
        icons = {
            "icon": f"{base_path()}{PREFIX}/static/graph.svg",
            "icon_dark_mode": f"{base_path()}{PREFIX}/static/graph_dark.svg",
        }
        return [
            {"name": "Graphs", "href": page, "destination": "nav", "url_route": "graphs", **icons},
            {
                "name": "Graphs",
                "href": f"{page}?dag_id={{DAG_ID}}",
                "destination": "dag",
                "url_route": "graphs-of-dag",
                **icons,
            },
            {
                "name": "Graph",
                "href": f"{page}?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
                "destination": "dag_run",
                "url_route": "graph-of-run",
                **icons,
            },
        ]
