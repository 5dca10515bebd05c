"""The routes and their HTML: read-only, behind Airflow's login, for users who may read the DAG."""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import PREFIX, base_path, task_path
from graph_partitioning.page.lookup import (
    FINDINGS,
    TaskKey,
    graph_run,
    media_type,
    published_runs,
    read_findings,
    read_listing,
    tasks_of_run,
)
from graph_partitioning.runs import GraphRun
from partition_ops.errors import InvalidInputError, PartitionOpsError

TASK = "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/{map_index}"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)
FILE_POLICY = POLICY + "; sandbox"  # files run no scripts and have an origin of their own
readable = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def make_app() -> FastAPI:
    """Return the application that Airflow's server mounts below the plugin's prefix."""
    app = FastAPI(title="Graph partitions", docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/", response_class=HTMLResponse)(show_published)
    app.get(TASK, dependencies=[readable], response_class=HTMLResponse)(show_task)
    app.get(TASK + "/files/{key:path}", dependencies=[readable])(send_file)
    app.add_exception_handler(HTTPException, refuse)
    app.add_exception_handler(PartitionOpsError, explain)
    return app


def show_published(session: SessionDep, user: GetUserDep) -> Response:
    """Show the newest published runs of the DAGs that the user may read."""
    dag_ids = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return _page("published.html", runs=published_runs(session, dag_ids))


def show_task(task: Annotated[TaskKey, Depends()], session: SessionDep) -> Response:
    """Show the artifacts of one task."""
    run = _run_of(task, session)
    siblings = tasks_of_run(session, task.dag_id, task.run_id)
    listing = read_listing(run)
    findings = [] if listing else read_findings(run)
    return _page("task.html", task=task, run=run, siblings=siblings, listing=listing, findings=findings)


def send_file(task: Annotated[TaskKey, Depends()], key: str, session: SessionDep) -> Response:
    """Send one artifact of a task, or one file of a failed validation, in chunks."""
    run = _run_of(task, session)
    listing = read_listing(run)
    if not (listing.may_serve(key) if listing else FINDINGS.fullmatch(key)):
        raise HTTPException(404, f"{key} is not an artifact of {task.task_id}")
    shown_as = media_type(key)
    size, chunks = GraphStorageHook(run.storage_conn_id).stream(run.root, key)
    headers = {"Content-Length": str(size), **_headers(FILE_POLICY)}
    if shown_as is None:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(PurePosixPath(key).name)}"
    return StreamingResponse(chunks, media_type=shown_as or "application/octet-stream", headers=headers)


def refuse(request: Request, error: HTTPException) -> Response:
    """Redirect a browser without a login to the login page; otherwise send the error."""
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        back = quote(request.url.path, safe="")
        return RedirectResponse(f"{base_path()}/api/v2/auth/login?next={back}", status_code=307)
    return _page("refusal.html", status_code=error.status_code, message=str(error.detail))


def explain(request: Request, error: PartitionOpsError) -> Response:
    """Send an error of the storage: the object is missing, or the server does not answer."""
    status = 404 if isinstance(error, InvalidInputError) else 502
    return _page("refusal.html", status_code=status, message=str(error))


def _run_of(task: TaskKey, session: SessionDep) -> GraphRun:
    run = graph_run(session, task)
    if run is None:
        raise HTTPException(
            404,
            "This task has no run folder. It has not run yet, it failed before it wrote anything,"
            " its XCom has been deleted, or its operator has no run_id.",
        )
    return run


def _page(template: str, status_code: int = 200, **values: object) -> Response:
    return HTMLResponse(render(template, **values), status_code, headers=_headers(POLICY))


def _headers(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "private, no-store",
    }


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
