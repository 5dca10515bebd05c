"""The routes and their HTML: they change nothing, behind Airflow's login, for users who may read the DAG."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import PREFIX, base_path, task_path
from graph_partitioning.page.actions import actions_for, may_answer, run_options
from graph_partitioning.page.checks import check_conf
from graph_partitioning.page.comparison import (
    Table,
    compare_runs,
    differs,
    input_changes,
    read_inputs,
    schema_changes,
)
from graph_partitioning.page.dag_runs import MANAGING, RunKey, add_tasks, answer_text, run_params
from graph_partitioning.page.graphs import (
    Graph,
    add_figures,
    add_states,
    titled,
    visible_graphs,
    with_run,
)
from graph_partitioning.page.lookup import (
    FINDINGS,
    TaskKey,
    graph_run,
    media_type,
    quality_page,
    read_findings,
    read_listings,
    tasks_of_run,
)
from graph_partitioning.page.pace import add_expected, wall_times
from graph_partitioning.page.readings import FIRST_SECONDS, MOST_SECONDS, NotYet, Patience, within
from graph_partitioning.page.review import limits_of, read_review
from graph_partitioning.page.words import (
    check_title,
    column,
    duration,
    durations,
    engine,
    in_percent,
    kind_of,
    limit_lines,
    limited,
    next_step,
    older_run,
    paces,
    pairs,
    percent,
    readable_size,
    row_state,
    run_step,
    when,
)
from graph_partitioning.runs import GraphRun, run_folder
from partition_ops.artifacts.layout import QUALITY_PAGE, QUALITY_REPORT
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.errors import InvalidInputError, PartitionOpsError, TransientStorageError
from partition_ops.jobs.options import RetentionConfig
from partition_ops.jobs.retention import retain_runs
from partition_ops.stages.publish.options import Gate
from partition_ops.stages.quality import charts, local_times
from partition_ops.stages.quality.local_times import moment

TASK = "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/{map_index}"
GRAPH = "/graphs/{key}"
FILES = {  # of the pages, by name
    "graphs.js": "text/javascript",
    local_times.SCRIPT: "text/javascript",
    "graph.svg": "image/svg+xml",
    "graph_dark.svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)
FILE_POLICY = POLICY + "; sandbox"  # files run no scripts and have an origin of their own
QUALITY_POLICY = (  # quality pages with times run the script that shows them in the user's zone, and no other
    f"{FILE_POLICY} allow-scripts allow-same-origin; script-src {local_times.inline_script_source()}"
)
PAGE_POLICY = (
    POLICY.replace("form-action 'none'", "form-action 'self'") + "; script-src 'self'; connect-src 'self'"
)
readable = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))


def _patience(wait: int = 0) -> Patience:
    """Return how long a page waits for storage: shortly, with ``wait=1`` longer, when it asks again for what
    was missing, and with ``wait=2`` longer, for the newest state."""
    return Patience(time.monotonic() + (MOST_SECONDS if wait else FIRST_SECONDS), wait == 1)


Waiting = Annotated[Patience, Depends(_patience)]
COLUMNS = (
    ("Graph", False),
    ("State", False),
    ("Published", False),
    ("Partitions", True),
    ("Engine", False),
    ("Edge cut", True),
    ("Worst imbalance", True),
    ("Remote rows", True),
    ("Replication", True),
    ("Nodes", True),
    ("Edges", True),
    ("Size", True),
)
MOST_RUNS = 200  # whose tasks are read for the page of a graph


def make_app() -> FastAPI:
    """Return the application that Airflow's server mounts below the plugin's prefix."""
    app = FastAPI(title="Graphs", docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/", response_class=HTMLResponse)(show_graphs)
    app.get("/static/{name}")(send_static)
    app.get(GRAPH, response_class=HTMLResponse)(show_graph)
    app.get(GRAPH + "/runs/{name}", response_class=HTMLResponse)(show_run)
    app.get(GRAPH + "/compare", response_class=HTMLResponse)(show_comparison)
    app.get(GRAPH + "/older")(list_older)
    app.post("/check/{dag_id}")(check_params)
    app.get(TASK, dependencies=[readable], response_class=HTMLResponse)(show_task)
    app.get(TASK + "/files/{key:path}", dependencies=[readable])(send_file)
    app.exception_handler(HTTPException)(refuse)
    app.exception_handler(PartitionOpsError)(explain)
    return app


def show_graphs(
    session: SessionDep, user: GetUserDep, patience: Waiting, dag_id: str = "", run_id: str = ""
) -> Response:
    """Show the graphs of the DAGs that the user may read, or of one of them; a DAG run leads to its graph."""
    graphs = _visible(session, user)
    if dag_id and run_id:
        graph = next((graph for graph in graphs if RunKey(dag_id, run_id) in graph.runs), None)
        if graph is None:
            text = "This DAG run does not work on a graph: it has no task that validates or publishes one."
            raise HTTPException(404, text)
        return RedirectResponse(graph_run_url(run_folder(run_id), graph))
    if dag_id:
        graphs = [graph for graph in graphs if any(run.dag_id == dag_id for run in graph.runs)]
        if len(graphs) == 1:
            return RedirectResponse(graph_url(graphs[0]))
    add_states(session, graphs)
    add_expected(session, graphs)
    add_figures(graphs, patience)
    answerable = may_answer(user, {run.key.dag_id for graph in graphs for run in graph.active if run.waiting})
    return _page("graphs.html", graphs=graphs, columns=COLUMNS, answerable=answerable)


def show_graph(key: str, session: SessionDep, user: GetUserDep, patience: Waiting) -> Response:
    """Show the runs of a graph."""
    graph = _graph(key, session, user, patience)
    rows = graph.rows
    add_tasks(session, [row.run for row in rows[:MOST_RUNS] if row.run])
    add_expected(session, [graph])
    actions = actions_for(session, user, graph)
    gate = limits_of(run_params(session, graph.last.key)) if graph.last else Gate()
    return _page("graph.html", graph=graph, rows=rows, charts=_charts(graph, gate), actions=actions)


def show_run(key: str, name: str, session: SessionDep, user: GetUserDep, patience: Waiting) -> Response:
    """Show one run of a graph, published or not."""
    graph = _graph(key, session, user, patience)
    row = next((one for one in graph.rows if one.name == name), None)
    if row is None:
        raise HTTPException(404, "This graph has no such run; it may have been deleted.")
    entry, good = row.entry, row.good
    add_tasks(session, [row.run] if row.run else [])
    add_expected(session, [graph])
    changes, review, problem = None, None, ""
    conf = run_params(session, row.run.key) if row.run else {}
    unread = ["the figures of this run"] if graph.pending else []
    try:
        changes = _changes_since_before(graph, entry, patience) if entry and good else None
    except NotYet:
        unread.append("the input files that changed")
    if row.run and row.run.waiting:
        try:
            review = within(patience.until, lambda: read_review(graph, name, conf))
        except NotYet:
            unread.append("the review")
        except PartitionOpsError as error:
            problem = str(error)
    return _page(
        "run.html",
        graph=graph,
        name=name,
        when=row.when,
        entry=entry,
        good=good,
        input=conf.get("input_uri") or (entry or {}).get("input"),  # as the user has named it
        state=row.run,
        label=row_state(row, graph),
        options=titled(entry["options"]) if entry and good else {},
        params=run_options(session, row.run.key) if row.run else ([], []),
        times=wall_times(session, {row.run.key}).get(row.run.key, {}) if row.run else {},
        changes=changes,
        unread=unread,
        review=review,
        problem=problem,
        actions=actions_for(session, user, graph),
    )


def _changes_since_before(graph: Graph, entry: Mapping[str, Any], patience: Patience) -> Table | None:
    """Return the table of the input files that changed since the run before, or why it is not known."""
    earlier = graph.good[: graph.good.index(dict(entry))]
    if not earlier:
        return None
    try:
        runs = earlier[-1], entry
        before, after = within(
            patience.until, lambda: [with_run(graph, one["run"], read_inputs) for one in runs]
        )
    except NotYet:
        raise
    except PartitionOpsError as error:
        return "", ["file"], [[f"unknown: {error.summary()}"]]
    title, _, rows = input_changes(before, after)
    return title, ["file", "change", "bytes before", "bytes now"], rows


def show_comparison(key: str, session: SessionDep, user: GetUserDep, a: str = "", b: str = "") -> Response:
    """Show two runs of a graph side by side."""
    graph = _graph(key, session, user, _patience(wait=2))
    if graph.pending:
        raise TransientStorageError(
            f"The storage of {graph.root} has not answered", remedy="Reload the page."
        )
    runs = {entry["run"]: entry for entry in graph.good}
    if a not in runs or b not in runs:
        raise HTTPException(404, "Choose two runs of this graph that are published and not damaged.")
    reports = [with_run(graph, name, lambda store: store.read_json(QUALITY_REPORT)) for name in (a, b)]
    inputs = [with_run(graph, name, read_inputs) for name in (a, b)]
    tables, moved = compare_runs((runs[a], runs[b]), (reports[0], reports[1]))
    validated = [with_run(graph, name, read_validation_report) for name in (a, b)]
    tables[2:2] = [input_changes(*inputs), schema_changes(*validated)]
    return _page("compare.html", graph=graph, a=runs[a], b=runs[b], tables=tables, moved=moved)


def list_older(
    key: str, session: SessionDep, user: GetUserDep, keep: int, grace_days: float
) -> dict[str, Any]:
    """Return which runs of a graph `manage_graph` would remove now, in words, and the bytes of all."""
    graph = _graph(key, session, user, _patience(wait=2))
    config = RetentionConfig(keep=keep, grace=timedelta(days=grace_days), dry_run=True)
    with GraphStorageHook(graph.storage_conn_id).open(graph.root) as root:
        found = retain_runs(config, root)
    rows = {row.name: row for row in graph.rows}
    names = [uri.rpartition("/")[2] for uri in found.removed]
    runs = [older_run(rows[name], graph) if name in rows else name for name in names]
    sizes = {"size": readable_size(found.bytes), "total": readable_size(found.total)}
    return {"runs": runs, "kept": len(found.kept), **sizes}


def check_params(dag_id: str, conf: dict[str, Any], session: SessionDep, user: GetUserDep) -> dict[str, str]:
    """Return what is wrong with the params of a run, by the name of the param; nothing is triggered."""
    if dag_id not in {run.dag_id for graph in _visible(session, user) for run in graph.runs}:
        raise HTTPException(404, "There is no such DAG, or you may not read it.")
    return check_conf(session, dag_id, conf)


def send_static(name: str) -> Response:
    """Send a script of the pages of graphs, or an icon in Airflow's navigation."""
    if name not in FILES:
        raise HTTPException(404, f"There is no file {name}")
    ours = files("graph_partitioning.page").joinpath("static", name)
    text = local_times.script_text() if name == local_times.SCRIPT else ours.read_text()
    return Response(text, media_type=FILES[name], headers={"X-Content-Type-Options": "nosniff"})


def _visible(session: SessionDep, user: GetUserDep) -> list[Graph]:
    return visible_graphs(session, get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))


def _graph(key: str, session: SessionDep, user: GetUserDep, patience: Patience) -> Graph:
    for graph in _visible(session, user):
        if graph.key == key:
            add_figures([graph], patience)
            return graph
    raise HTTPException(404, "There is no such graph, or you may not read a DAG that has run over it.")


def _charts(graph: Graph, gate: Gate) -> list[Markup]:
    """Return charts from run to run, with the limits of the last run and a mark for the published one."""
    good = graph.good
    if len(good) < 2:
        return []
    names = [f"{moment(entry['published'])}, {entry['run']}" for entry in good]
    places = charts.places_by_time([datetime.fromisoformat(entry["published"]) for entry in good])
    ends = (moment(good[0]["published"]), moment(good[-1]["published"]))
    marked = [entry["run"] == graph.latest for entry in good]
    seconds = [sum(entry["seconds"].values()) for entry in good]
    defects = [float(sum(entry["defects"].values())) for entry in good]
    rows = "{:,.0f}".format
    drawn = {
        "Edges cut": (column(good, "edge_cut"), percent, gate.max_edge_cut),
        "Worst type imbalance": (column(good, "worst_imbalance"), "{:.3f}".format, gate.max_imbalance),
        "Remote rows a batch, slowest trainer": (column(good, "slowest_rows"), rows, gate.max_remote_rows),
        "Old nodes moved": (column(good, "moved"), percent, gate.max_moved),
        "Edges": (column(good, "num_edges"), rows, None),
        "Size of the partitions": (column(good, "bytes"), readable_size, None),
        "Seconds of all stages": (seconds, "{:,.1f}".format, None),
        "Findings of validation": (defects, rows, None),
    }
    return [
        Markup(
            charts.line_chart(
                title, values, names, show, places=places, limit=limit, ends=ends, marked=marked
            )
        )
        for title, (values, show, limit) in drawn.items()
    ]


def show_task(task: Annotated[TaskKey, Depends()], session: SessionDep) -> Response:
    """Show the artifacts of one task."""
    run = _run_of(task, session)
    siblings = tasks_of_run(session, task.dag_id, task.run_id)
    listings = read_listings(run)
    findings = [] if listings else read_findings(run)
    return _page("task.html", task=task, run=run, siblings=siblings, listings=listings, findings=findings)


def send_file(task: Annotated[TaskKey, Depends()], key: str, session: SessionDep) -> Response:
    """Send one artifact of a task, or one file of a failed validation, in chunks."""
    run = _run_of(task, session)
    listings = read_listings(run)
    if not (any(one.may_serve(key) for one in listings) if listings else FINDINGS.fullmatch(key)):
        raise HTTPException(404, f"{key} is not an artifact of {task.task_id}")
    shown_as = media_type(key)
    if key == QUALITY_PAGE:
        page = quality_page(run)
        shows_times = local_times.inline_script() in page
        return HTMLResponse(page, headers=_headers(QUALITY_POLICY if shows_times else FILE_POLICY))
    headers = _headers(FILE_POLICY)
    size, chunks = GraphStorageHook(run.storage_conn_id).stream(run.root, key)
    headers["Content-Length"] = str(size)
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
    return HTMLResponse(render(template, **values), status_code, headers=_headers(PAGE_POLICY))


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
    environment.filters.update(graph_url=graph_url, task_page_url=task_page_url)
    environment.filters.update(moment=moment, percent=percent, column=column, spark=_sparkline, engine=engine)
    environment.filters.update(next_step=next_step, folder=run_folder, answer=answer_text)
    environment.filters.update(graph_run_url=graph_run_url, answer_path=answer_path, pairs=pairs)
    environment.filters.update(when=when, duration=duration, kind=kind_of, row_state=row_state)
    environment.filters.update(paces=paces, durations=durations, run_step=run_step, check_title=check_title)
    environment.filters.update(limit_lines=limit_lines, in_percent=in_percent, limited=limited)
    environment.tests.update(different=differs)
    environment.globals["api"] = f"{base_path()}/api/v2"
    environment.globals["managing"] = MANAGING
    environment.globals["check_title"] = check_title
    environment.globals["most_seconds"] = MOST_SECONDS
    environment.globals["chart_style"] = Markup(charts.STYLE)
    environment.globals["home"] = f"{base_path()}{PREFIX}/"
    environment.globals["static"] = f"{base_path()}{PREFIX}/static/"
    environment.globals["dag_url"] = f"{base_path()}/dags/partition_graph"
    return environment


def _sparkline(values: charts.Values, label: str) -> Markup:
    return Markup(charts.sparkline(values, label))


def task_url(task: TaskKey) -> str:
    """Return the URL of the page of a task."""
    return f"{base_path()}{PREFIX}{task_path(task.dag_id, task.run_id, task.task_id, task.map_index)}"


def file_url(key: str, task: TaskKey) -> str:
    """Return the URL of an artifact of a task."""
    return f"{task_url(task)}/files/{quote(key)}"


def run_url(run: TaskKey | RunKey) -> str:
    """Return the URL of Airflow's page of a DAG run."""
    return f"{base_path()}/dags/{quote(run.dag_id, safe='')}/runs/{quote(run.run_id, safe='')}"


def task_page_url(task: TaskKey) -> str:
    """Return the URL of Airflow's page of a task, with its log."""
    mapped = f"/mapped/{task.map_index}" if task.map_index >= 0 else ""
    return f"{run_url(task)}/tasks/{quote(task.task_id, safe='')}{mapped}"


def graph_url(graph: Graph) -> str:
    """Return the URL of the page of a graph."""
    return f"{base_path()}{PREFIX}/graphs/{graph.key}"


def graph_run_url(name: str, graph: Graph) -> str:
    """Return the URL of the page of a run of a graph."""
    return f"{graph_url(graph)}/runs/{quote(name, safe='')}"


def answer_path(task: TaskKey) -> str:
    """Return the path below Airflow's REST API of the question that a task asks a person."""
    dag, run, name = (quote(part, safe="") for part in (task.dag_id, task.run_id, task.task_id))
    return f"/dags/{dag}/dagRuns/{run}/taskInstances/{name}/{task.map_index}/hitlDetails"
