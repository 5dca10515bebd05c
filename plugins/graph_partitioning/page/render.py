"""HTML from the templates beside this module, with everything escaped."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from graph_partitioning.links import PREFIX, base_path, task_path
from graph_partitioning.page.lookup import TaskKey

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("graph_partitioning.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(task_url=task_url, file_url=file_url, run_url=run_url, size=readable_size)
    environment.globals["home"] = f"{base_path()}{PREFIX}/"
    return environment


def task_url(task: TaskKey) -> str:
    """Return the URL of the page of a task."""
    return f"{base_path()}{PREFIX}{task_path(task.dag_id, task.run_id, task.task_id, task.map_index)}"


def file_url(key: str, task: TaskKey) -> str:
    """Return the URL of an artifact of a task."""
    return f"{task_url(task)}/files/{quote(key)}"


def run_url(task: TaskKey) -> str:
    """Return the URL of Airflow's page of the DAG run."""
    return f"{base_path()}/dags/{quote(task.dag_id, safe='')}/runs/{quote(task.run_id, safe='')}"


def readable_size(size: float) -> str:
    """Return bytes in the unit that leaves one to four digits before the point."""
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
