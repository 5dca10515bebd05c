"""The buttons on a task's page that lead to its artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/graph-partitioning"


def base_url() -> str:
    """Return the address that Airflow is served at, without a slash at its end; it may be only a path."""
    from airflow.sdk.configuration import conf

    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")


def base_path() -> str:
    """Return the path that Airflow is served below, without a slash at its end."""
    return urlsplit(base_url()).path.rstrip("/")


def task_path(dag_id: str, run_id: str, task_id: str, map_index: int | None = -1) -> str:
    """Return the path of a task's artifacts below the plugin's prefix."""
    dag, run, task = (quote(part, safe="") for part in (dag_id, run_id, task_id))
    return f"/dags/{dag}/runs/{run}/tasks/{task}/{-1 if map_index is None else map_index}"


class ArtifactsLink(BaseOperatorLink):
    """Leads to the page with the artifacts of a task."""

    name = "Artifacts"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        path = task_path(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)
        return f"{base_path()}{PREFIX}{path}"


class DataDocsLink(ArtifactsLink):
    """Leads to the Data Docs that ``validate`` wrote, even if it failed."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        from partition_ops.artifacts.layout import data_docs

        return f"{super().get_link(operator, ti_key=ti_key)}/files/{data_docs('index.html')}"
