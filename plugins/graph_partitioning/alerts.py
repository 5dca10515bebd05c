"""Alerts by Airflow's notifiers: which there are, and which a graph has.

The Variable `graph_alerts` defines alerts by name, each with the class of a notifier and its arguments. The
param `alerts` of a run, or of a graph on the list, only names them: whoever may trigger a run cannot make
Airflow send anything else, or to anybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from graph_partitioning.links import PREFIX, base_url
from graph_partitioning.options import Alerting
from graph_partitioning.runs import FAILURE_KEY
from partition_ops.options.values import build, parse_settings

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

VARIABLE = "graph_alerts"
RELEASE = "release"  # fails because another task has failed
TITLES = {
    "failure": "the run failed",
    "approval": "a run waits for approval",
    "drift": "the partitions have drifted",
    "not_renewed": "the graph was not renewed",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Alert:
    """What a notifier is told: ``alert`` in the templates of its arguments.

    Attributes:
        event: One of `TITLES`.
        graph: Name of the graph, or the URI of its input if no name is known.
        text: What has happened, in words.
        url: Address of the run, or of all graphs, on the page **Graphs**.
    """

    event: str
    graph: str
    text: str
    url: str

    @property
    def title(self) -> str:
        """One line, such as for the subject of a mail."""
        return f"{self.graph}: {TITLES[self.event]}"


def check_alerts(settings: Mapping[str, Any]) -> None:
    """Check that all alerts that settings name are defined, and that their notifiers can be made.

    Raises:
        PartitionOpsError: An alert is not defined, or its definition is wrong.
    """
    for definition in _chosen(settings):
        _notifier(definition)


def days_of(settings: Mapping[str, Any]) -> list[float]:
    """Return after how many days without a published run the alerts ask to be told."""
    return [one["days"] for one in _chosen(settings) if "days" in one and _wants(one, "not_renewed")]


def send(
    context: Mapping[str, Any],
    settings: Mapping[str, Any],
    event: str,
    text: str,
    *,
    days: float | None = None,
) -> None:
    """Tell the alerts of a run or a graph of an event.

    What is wrong with a definition, and notifiers that fail, are logged only: an alert must not fail a run.

    Args:
        context: Context of a task, or of a callback of a DAG.
        settings: Values by the names of the params of `partition_graph`.
        event: One of `TITLES`.
        text: What has happened, in words.
        days: Only alerts with this number of days.
    """
    told = {**context, "alert": _alert(context, settings, event, text)}
    try:
        for one in _chosen(settings):
            if _wants(one, event) and days in (None, one.get("days")):
                _tell(one, told)
    except Exception as error:  # no connection to Airflow's API either
        log.error("Nobody is told of %s: %s", event, error)


def _tell(definition: Mapping[str, Any], told: dict[str, Any]) -> None:
    try:
        _notifier(definition)({**told})  # it adds its arguments to the context
    except Exception as error:  # anything that a notifier raises
        log.error("%s: %s was not told: %s", told["alert"].title, definition["notifier"], error)
    else:
        log.info("%s: %s was told", told["alert"].title, definition["notifier"])


def _alert(context: Mapping[str, Any], settings: Mapping[str, Any], event: str, text: str) -> Alert:
    graph = str(settings.get("graph_name") or settings.get("input_uri") or "")
    run_id, dag = context.get("run_id"), context.get("dag")
    query = ""
    if event != "not_renewed" and dag is not None and run_id:
        query = f"?dag_id={quote(dag.dag_id, safe='')}&run_id={quote(str(run_id), safe='')}"
    return Alert(event, graph, text, f"{base_url()}{PREFIX}/{query}")


def tell_failure(context: Mapping[str, Any]) -> None:
    """Tell the alerts of a DAG run that it has failed, or those of a graph on the list that its task has.

    A DAG, or a task with the settings of a graph in its attribute ``graph``, takes it as its
    ``on_failure_callback``.
    """
    graph, run = getattr(context.get("task"), "graph", None), context.get("dag_run")
    if graph is not None:
        send(context, graph, "failure", str(context.get("exception") or "See the log of the task."))
    elif run is None:  # the scheduler sends none if the DAG has lost the last task of the run
        log.warning("Nobody is told of the failure: Airflow does not say with which params")
    else:
        settings = {**context["dag"].params.dump(), **(run.conf or {})}
        send(context, settings, "failure", _reason(context) or str(context.get("reason") or "See its log."))


def _reason(context: Mapping[str, Any]) -> str:
    """Return why tasks have failed, as far as they said it themselves."""
    reasons = []
    for task_id in context["dag"].task_ids:
        with suppress(Exception):  # no reason is worth the alert
            found = context["ti"].xcom_pull(task_ids=task_id, key=FAILURE_KEY, map_indexes=None)
            several = [found] if isinstance(found, str) else found or ()  # of a mapped task
            reasons += [f"{task_id}: {one}" for one in several if one]
    others = [one for one in reasons if not one.startswith(f"{RELEASE}:")]
    return "\n".join(others or reasons)


def _wants(definition: Mapping[str, Any], event: str) -> bool:
    return event in definition.get("events", TITLES)


def _chosen(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the definitions of the alerts that settings name."""
    from partition_ops.errors import InvalidInputError, UsageError

    names = build(Alerting, parse_settings(Alerting, settings)).alerts or ()
    if not names:
        return []
    known = _definitions()
    for name in names:
        if name not in known:
            raise UsageError(
                f"There is no alert {name!r}",
                found=f"the Airflow Variable {VARIABLE!r} with {', '.join(known) or 'none'}",
                remedy="Define it there (docs/schedule.md), or correct the name.",
            )
        if not _wants(known[name], "not_renewed") and "days" in known[name]:
            raise InvalidInputError(f"The alert {name!r} has 'days' without 'not_renewed' under 'events'")
    return [known[name] for name in names]


def _definitions() -> dict[str, dict[str, Any]]:
    """Return what the Variable defines. Errors do not show its content, which may have secrets."""
    import yaml
    from airflow.sdk import Variable

    from partition_ops.errors import InvalidInputError
    from partition_ops.system.json_documents import check_document

    text: str | None = Variable.get(VARIABLE, default=None)
    try:
        found: dict[str, dict[str, Any]] = yaml.safe_load(text or "{}")
        check_document(found, "alerts", where=VARIABLE)
    except (yaml.YAMLError, RecursionError, ValueError, InvalidInputError):
        pass
    else:
        return found
    # outside of the handler: the log has no traceback with the content
    raise InvalidInputError(
        f"The Airflow Variable {VARIABLE!r} does not define alerts",
        found="its content is not shown, because a Variable may hold secrets",
        expected="the YAML that docs/schedule.md describes",
    )


def _notifier(definition: Mapping[str, Any]) -> BaseNotifier:
    """Make the notifier of an alert; each is used once, because its templates are rendered in place."""
    from airflow.sdk import BaseNotifier

    from partition_ops.errors import InvalidInputError

    path = definition["notifier"]
    module, _, name = path.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"There is no notifier {path}",
            found=str(error),
            remedy="Install its provider, or correct the path.",
        ) from None
    if not (isinstance(cls, type) and issubclass(cls, BaseNotifier)):
        raise InvalidInputError(f"{path} is not a notifier of Airflow", expected="a subclass of BaseNotifier")
    try:
        return cls(**definition.get("arguments", {}))
    except TypeError as error:
        raise InvalidInputError(f"{path} does not take these arguments", found=str(error)) from None
