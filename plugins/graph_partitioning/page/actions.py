"""Actions that a user may take: their buttons, and the form of a run with the options of the last one.

The page itself changes nothing. A button makes the browser call Airflow's REST API as the user, who needs the
same permissions there, and whose call is in Airflow's audit log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy.orm import Session

from graph_partitioning.page.dag_runs import MANAGING, RunKey, run_conf
from graph_partitioning.page.graphs import Graph
from graph_partitioning.runs import run_folder

FIRST_SECTION = "Graph and partitions"
BOUNDS = {"minimum": "min", "maximum": "max"}


@dataclass(frozen=True)
class Field:
    """A param of a DAG in the form.

    Attributes:
        name: Its name.
        title: Its title.
        section: Its section.
        help: Its description.
        kind: ``boolean``, ``integer``, ``number``, ``string`` or ``json``.
        nullable: Whether it may be empty.
        value: Its value in the last run.
        default: Its value if a run does not give one.
        choices: Its allowed values; none if it is free.
        bounds: Attributes of the input.
    """

    name: str
    title: str
    section: str
    help: str
    kind: str
    nullable: bool
    value: Any
    default: Any
    choices: list[str]
    bounds: dict[str, Any]

    @property
    def text(self) -> str:
        """The value as it stands in the input."""
        if self.value is None:
            return ""
        return json.dumps(self.value) if self.kind == "json" else str(self.value)


@dataclass(frozen=True)
class Trigger:
    """A run that the user may trigger.

    Attributes:
        dag_id: Its DAG.
        conf: Params of the last run.
        sections: Fields of the form by section.
        paused: Whether the DAG is paused, so that a run would not start.
        published: Params of the published run; None if Airflow does not know its DAG run any more.
    """

    dag_id: str
    conf: dict[str, Any]
    sections: dict[str, list[Field]]
    paused: bool
    published: dict[str, Any] | None

    def options(self, **changed: Any) -> list[str]:
        """Return the options of another run, as lines: those that are not the defaults, or differ from the
        published run, old → new.

        Args:
            changed: Params that differ from those of the last run.
        """
        lines = []
        for one in (one for fields in self.sections.values() for one in fields):
            new = changed.get(one.name, one.value)
            old = new if self.published is None else self.published.get(one.name, one.default)
            if old != new:
                lines.append(f"{one.title}: {_shown(old)} → {_shown(new)}")
            elif new != one.default:
                lines.append(f"{one.title}: {_shown(new)}")
        return lines


@dataclass(frozen=True)
class Actions:
    """What the user may do with a graph.

    Attributes:
        trigger: A run like the last one; None if the user may not trigger it.
        manage: Whether the user may trigger `manage_graph`.
        paused: Whether `manage_graph` is paused.
        answerable: IDs of the DAGs whose questions the user may answer.
    """

    trigger: Trigger | None = None
    manage: bool = False
    paused: bool = False
    answerable: set[str] = field(default_factory=set)

    @property
    def any(self) -> bool:
        return self.manage or self.trigger is not None


def actions_for(session: Session, user: Any, graph: Graph) -> Actions:
    """Return what the user may do with a graph to which `add_states` has added its runs."""
    managing = session.get(DagModel, MANAGING)
    manage = managing is not None and not managing.is_stale and _may(user, MANAGING, "POST")
    trigger = None
    if graph.last is not None:
        last = graph.last.key
        if _may(user, last.dag_id, "POST") and _may(user, last.dag_id, "GET"):
            newest = graph.newest and graph.newest["run"]
            published = next((key for key in graph.runs if run_folder(key.run_id) == newest), None)
            trigger = _trigger(session, last, published)
    answerable = may_answer(user, {key.dag_id for key in graph.runs})
    return Actions(trigger, manage, bool(managing and managing.is_paused), answerable)


def may_answer(user: Any, dag_ids: set[str]) -> set[str]:
    """Return those of the DAGs whose questions the user may answer."""
    return {dag_id for dag_id in dag_ids if _may(user, dag_id, "PUT", DagAccessEntity.HITL_DETAIL)}


def _may(user: Any, dag_id: str, method: Any, entity: DagAccessEntity = DagAccessEntity.RUN) -> bool:
    """Return what Airflow's REST API would say to this user."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method=method, access_entity=entity, details=details, user=user
    )


def run_options(session: Session, run: RunKey) -> tuple[list[list[str]], list[list[str]]]:
    """Return the params of a DAG run as rows of title and value, as the form shows them.

    The first list has those that are not the defaults, the second one the others; both are empty if Airflow
    does not know the DAG or the run any more.
    """
    changed: list[list[str]] = []
    defaults: list[list[str]] = []
    conf, dag = run_conf(session, run), SerializedDagModel.get_dag(run.dag_id, session=session)
    if conf is not None and dag is not None:
        for one in _fields(dag, conf):
            (defaults if one.value == one.default else changed).append([one.title, _shown(one.value)])
    return changed, defaults


def _shown(value: Any) -> str:
    return "empty" if value in (None, "") else value if isinstance(value, str) else json.dumps(value)


def _trigger(session: Session, last: RunKey, published: RunKey | None) -> Trigger | None:
    dag = SerializedDagModel.get_dag(last.dag_id, session=session)
    model = session.get(DagModel, last.dag_id)
    conf = run_conf(session, last)
    if dag is None or model is None or model.is_stale or conf is None:
        return None
    sections: dict[str, list[Field]] = {}
    for one in _fields(dag, conf):
        sections.setdefault(one.section, []).append(one)
    conf = {name: value for name, value in conf.items() if name in dag.params}
    before = run_conf(session, published) if published else None
    return Trigger(last.dag_id, conf, sections, bool(model.is_paused), before)


def _fields(dag: Any, conf: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the params of a DAG with the values of a run."""
    for name in dag.params:
        param, default = dag.params.get_param(name), dag.params[name]
        yield _field(name, param.schema, conf.get(name, default), default, param.description)


def _field(name: str, schema: Mapping[str, Any], value: Any, default: Any, description: str | None) -> Field:
    types = schema.get("type", "string")
    types = [types] if isinstance(types, str) else [*types]
    (kind, *more) = [one for one in types if one != "null"] or ["json"]
    if more or kind not in ("boolean", "integer", "number", "string"):
        kind = "json"
    bounds = {html: schema[key] for key, html in BOUNDS.items() if key in schema}
    if kind in ("integer", "number"):
        bounds["step"] = 1 if kind == "integer" else "any"
    return Field(
        name=name,
        title=str(schema.get("title") or name),
        section=str(schema.get("section") or FIRST_SECTION),
        help=str(description or schema.get("description") or ""),
        kind=kind,
        nullable="null" in types,
        value=value,
        default=default,
        choices=[str(one) for one in schema.get("enum") or () if one is not None],
        bounds=bounds,
    )
