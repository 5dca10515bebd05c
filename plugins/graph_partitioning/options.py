"""Options of the DAGs and operators: those of the library, and those that only Airflow has.

`FORM` lists the dataclasses of all options in the form of `partition_graph` and in the list of
`repartition_graph`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Literal

from partition_ops.errors import UsageError
from partition_ops.jobs.options import RetentionConfig, RunConfig
from partition_ops.options.declare import ROOT_PATTERN, Option, Options, option, options_of
from partition_ops.options.json_schema import form_fields, settings_schema
from partition_ops.options.values import build, parse_settings
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.validate.options import ExpectationSuites

RUN_NAME = re.compile(r"^(?!\.\.?$)[^/]+$")  # a folder below runs/


@dataclass(frozen=True, kw_only=True)
class GraphLocation(Options):
    """The roots of the graph and of its runs, and the connection to them."""

    input_uri: str = option(
        help="Folder with the graph's metadata.json, a graph.yaml that names tables, or a graph.bin that DGL"
        " saved: s3://bucket/prefix, or a path on the workers.",
        title="Input graph",
        form={"pattern": ROOT_PATTERN},
    )
    output_uri: str = option(
        help="The run writes to <output root>/<graph>/runs/<run>/.",
        title="Output root",
        form={"pattern": ROOT_PATTERN},
    )
    storage_conn_id: str | None = option(
        "aws_default",
        help="Airflow connection of type aws for s3:// URIs.",
        title="Storage connection",
        section="More",
        empty="boto3 looks for credentials itself",
    )


@dataclass(frozen=True, kw_only=True)
class Approval(Options):
    """The fate of partitions that do not pass the quality gate."""

    approval: bool = option(
        False,
        help="If the partitions exceed a limit, wait for the approval of a person instead of failing.",
        title="Wait for approval",
        section="Publishing",
    )
    approval_hours: float = option(
        24,
        help="Hours to wait for approval; after that the run fails.",
        title="Hours to wait for approval",
        section="Publishing",
        above=0,
    )


@dataclass(frozen=True, kw_only=True)
class Alerting(Options):
    """Who is told what happens to runs of the graph."""

    alerts: tuple[str, ...] | None = option(
        None,
        help="Names of alerts in the Airflow Variable graph_alerts, separated by commas. They are told if a"
        " run fails, waits for approval or exceeds a limit, and if the graph was not renewed for some days.",
        title="Alerts",
        section="Publishing",
        metavar="NAME,…",
        empty="nobody is told",
    )


@dataclass(frozen=True, kw_only=True)
class Retention(Options):
    """Which older runs of the graph are removed."""

    keep: int | None = option(
        None,
        help="Number of published runs of the graph to keep; older ones are removed.",
        title="Runs to keep",
        section="Publishing",
        minimum=1,
        empty="all runs are kept",
    )
    grace_days: float = option(
        7,
        help="Runs in which a file was written within this number of days are not removed.",
        title="Days of grace",
        section="Publishing",
        minimum=0,
    )

    def config(self, *, dry_run: bool = False) -> RetentionConfig | None:
        """Return the options of the library; None if all runs are kept."""
        if self.keep is None:
            return None
        return RetentionConfig(keep=self.keep, grace=timedelta(days=self.grace_days), dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class Management(Options):
    """What `manage_graph` does with the published runs of a graph."""

    action: Literal["publish", "delete", "retain", "remove"] = option(
        "publish",
        help="publish: publish an older run again. delete: delete a run. retain: keep the newest published"
        " runs and remove older ones. remove: remove the graph with all its runs.",
        title="Action",
    )
    graph_uri: str = option(
        help="Root of the graph's runs, <output root>/<graph>.",
        title="Graph",
        form={"pattern": ROOT_PATTERN},
    )
    run_name: str | None = option(
        None,
        help="Name of the folder of the run below runs/, to publish or to delete.",
        title="Run",
        empty="for the actions retain and remove",
        form={"pattern": f"^$|{RUN_NAME.pattern}"},
    )
    confirmation: str | None = option(
        None,
        help="Name of the graph, which confirms the action remove.",
        title="Confirmation",
        empty="for all other actions",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.graph_uri.rstrip("/").rpartition("/")[2]
        if self.action == "remove" and self.confirmation != name:
            raise UsageError(
                "The action 'remove' needs the name of the graph as a confirmation",
                found=repr(self.confirmation),
                expected=repr(name),
            )
        if self.action in ("retain", "remove") or RUN_NAME.fullmatch(self.run_name or ""):
            return
        raise UsageError(
            f"The action {self.action!r} needs the name of a run",
            found=repr(self.run_name),
            expected="the name of a folder below runs/, without a path",
        )


FORM = (
    GraphLocation,
    PreviousOptions,
    ExpectationSuites,
    RunConfig,
    IdMapConfig,
    Approval,
    Alerting,
    Retention,
)


def form(*classes: type, defaults: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the arguments of ``Param`` for every option in the form of `partition_graph`, by its name.

    Args:
        classes: Dataclasses with declared options; `FORM` if left out.
        defaults: Values that the form begins with, where they differ from the declared ones.
    """
    fields = form_fields(*options_of(*(classes or FORM)))
    for name, value in (defaults or {}).items():
        fields[name]["default"] = value
    return fields


def graph_settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of a graph's settings in the list of `repartition_graph`."""
    return settings_schema(
        options_of(*FORM),
        name="graph_settings.schema.json",
        title="settings of a graph in the list of repartition_graph; their names are those of the params of"
        " partition_graph",
    )


def templates(*classes: type) -> dict[str, Any]:
    """Return a template of the param for every option in the form, by the name of the operator's argument.

    `GraphRunOperator` takes the graph's name and location, and whether it has reverse edges, itself, so they
    are left out.
    """
    found: dict[str, Any] = {}
    for one in options_of(*classes):
        if one.form is None or one.name in COMMON:
            continue
        if one.by_key is None:
            found[one.form_name] = _template(one)
        else:
            found[one.form_name] = {key: _template(choice) for key, choice in one.by_key().items()}
    return found


def planned_templates() -> dict[str, Any]:
    """Return templates of the options of the whole job, which its plan is checked with.

    They do not include how MPI is started: the worker that validates need not have it.
    """
    mpi = {one.form_name for one in options_of(MpiOptions)}
    return {name: template for name, template in templates(RunConfig).items() if name not in mpi}


COMMON = ("graph_name", "reverse_edges", *(one.name for one in options_of(GraphLocation)))


def _template(one: Option) -> str:
    name = f"params.{one.form_name}"
    return f"{{{{ '' if {name} is none else {name} }}}}" if one.nullable else f"{{{{ {name} }}}}"


def run_config(settings: Mapping[str, Any]) -> RunConfig:
    """Return the options that a DAG run with these params takes; empty ones are as in the form.

    Args:
        settings: Values by the names of the params, as they are or as text from templates; those that are not
            options of the whole job are ignored.

    Raises:
        UsageError: A value is wrong.
    """
    num_parts = form(RunConfig)["num_parts"]["default"]
    return build(RunConfig, {"num_parts": num_parts, **parse_settings(RunConfig, settings)})


def unknown_params(given: Iterable[str], known: Collection[str]) -> str:
    """Return which params a DAG does not have, each with the nearest name, as a sentence; ``""`` if none.

    What Airflow's provider of OpenLineage adds to the params of a DAG run that a task triggers is no mistake.
    """
    words = []
    for name in given:
        if name not in known and name != "openlineage":
            near = get_close_matches(name, known, n=1)
            words.append(f"there is no param {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    text = "; ".join(words)
    return text[:1].upper() + text[1:]


def in_form_words(text: str) -> str:
    """Return a message with the titles and names of params instead of options of the command line."""

    def word(match: re.Match[str]) -> str:
        one, choices = shown[match["option"]], match["choices"] or ""
        if one.by_key is None:
            return f"'{one.title}' ({one.form_name}){choices}"
        key, equals, value = choices.strip().partition("=")
        choice = one.by_key().get(key)
        return f"'{choice.title}' ({choice.form_name}){equals}{value}" if choice else match[0]

    shown = {one.option_string: one for one in options_of(*FORM) if one.form is not None}
    names = "|".join(sorted(map(re.escape, shown), key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?P<option>{names})(?![\w-])(?P<choices>(?<=defect) \w+=[\w|]+)?", word, text)


def is_true(value: object) -> bool:
    """Return a truth value that may be text from a template."""
    return str(value).lower() == "true"
