"""Write the tables in docs/ that follow from the code, between their markers: ``make reference``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; `TABLES` makes its lines.
Translated pages have rows of their own, which are translated by hand.
``schemas/graph_settings.schema.json`` is written too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from graph_partitioning.options import (
    Alerting,
    Approval,
    GraphLocation,
    Retention,
    graph_settings_schema,
)

from partition_ops.formats.format import format_names, get_formats
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.jobs.options import RetentionConfig, RunConfig
from partition_ops.options.declare import KINDS, REQUIRED, Option, by_section, options_of
from partition_ops.options.values import show_value
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.stages.convert.options import ForeignAssignment
from partition_ops.stages.idmap.options import IdMapConfig, OwnIds, RemapConfig
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.partition.options import PreviousOptions, ProgramOptions
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.quality.options import EarlierReport
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.options import ExpectationSuites
from partition_ops.traffic.options import SamplingOptions
from partition_ops.verification.verification_report import all_checks

DOCS = Path(__file__).parent
HEAD = ("option", "param", "values", "default", "meaning")
SETTINGS = DOCS.parent / "schemas" / "graph_settings.schema.json"


def option_table(options: Iterable[Option], *, command_line: bool = True, form: bool = True) -> list[str]:
    """Return the lines of a table of options.

    An option with a choice by key is followed by a row for each key, as the form has them.

    Args:
        options: The options.
        command_line: Whether the table has a column with the option on the command line.
        form: Whether it has a column with the name of the param in the form.
    """
    shown = {"option": command_line, "param": form}
    columns = [name for name in HEAD if shown.get(name, True)]
    rows = [dict.fromkeys(columns, "---")]
    for one in (member for members in by_section([*options]).values() for member in members):
        rows.append(option_row(one))
        for choice in {} if one.by_key is None or not form else one.by_key().values():
            rows.append({**option_row(choice), "option": ""})
    lines = [[row[name] for name in columns] for row in rows]
    return [f"| {' | '.join(line)} |" for line in ([*columns], *lines)]


def option_row(one: Option) -> dict[str, str]:
    if one.choices:
        values = ("some of " if one.many else "") + ", ".join(f"`{value}`" for value in one.allowed)
    elif one.by_key is not None or one.parse is not None:
        values = "text"
    else:
        values = "several: " if one.many else ""
        values += KINDS[one.type][1] + (f", {one.range}" if one.range else "")
    shown = "" if one.default is REQUIRED else show_value(one, one.default)
    default = "required" if one.default is REQUIRED else f"`{shown}`" if shown else one.empty or "none"
    return {
        "option": f"`{one.option_string} {one.metavar or ''}".rstrip() + "`",
        "param": "" if one.form is None or one.by_key is not None else f"`{one.form_name}`",
        "values": values,
        "default": default.replace("<", "\\<"),
        "meaning": one.help.replace("|", "\\|").replace("<", "\\<"),
    }


def options_table(*classes: type, command_line: bool = True, form: bool = False) -> list[str]:
    """Return the table of the options of dataclasses, without the graph's name, which every stage takes."""
    options = [one for one in options_of(*classes) if form or one.name != "graph_name"]
    return option_table(options, command_line=command_line, form=form)


def checks_table() -> list[str]:
    """Return the lines of the table in docs/validation.md."""
    head = ("check", "severity", "actions", "metrics", "a finding is that", "without the check")
    rows = [
        (
            f"`{check.name}`",
            check.severity,
            *map(", ".join, (check.actions, check.tables)),
            check.finding,
            check.harm,
        )
        for check in CHECKS.values()
    ]
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return [first, "|---" * len(head) + "|", *others]


def sources_table() -> list[str]:
    """Return the lines of the table of formats in docs/tables.md."""
    # here, because it needs the extra tables and the other tables of the docs do not
    from partition_ops.stages.ingest.sources import table_sources

    rows = [
        f"| {kind.title} | `{kind.name}` | {', '.join(f'`{suffix}`' for suffix in kind.suffixes)}"
        f" | {kind.value_types} |"
        for kind in table_sources()
        if kind.suffixes
    ]
    return ["| Files | `format` | Names | Types |", "|---|---|---|---|", *rows]


def verification_table() -> list[str]:
    """Return the table of the checks of ``verify``."""
    rules = all_checks(get_formats(format_names()))
    rows = (
        f"| `{name}` | {rule} |".replace("<", "&lt;").replace(">", "&gt;") for name, rule in rules.items()
    )
    return ["| check | what must hold |", "|---|---|", *rows]


TABLES: dict[str, Callable[[], list[str]]] = {
    "checks": checks_table,
    "sources": sources_table,
    "verification": verification_table,
    "options-run": partial(options_table, PreviousOptions, RunConfig, ExpectationSuites, form=True),
    "options-airflow": partial(
        options_table,
        GraphLocation,
        Approval,
        Alerting,
        Retention,
        command_line=False,
        form=True,
    ),
    "options-ingest": partial(options_table, IngestConfig),
    "options-prepare": partial(options_table, PrepareConfig),
    "options-convert": partial(options_table, ForeignAssignment),
    "options-idmap-export": partial(options_table, IdMapConfig, form=True),
    "options-idmap-restore": partial(options_table, RemapConfig, OwnIds),
    "options-quality": partial(options_table, SamplingOptions, EarlierReport),
    "options-cache": partial(options_table, CacheConfig),
    "options-probe": partial(options_table, ProbeConfig),
    "options-retain": partial(options_table, RetentionConfig),
    "options-pm-dglpart": partial(options_table, ProgramOptions),
    "options-convert-partition": partial(options_table, ConvertPartitionConfig),
}
MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Return the text of a page with its tables as the code has them now."""
    return MARKED.sub(lambda found: f"{found[1]}\n" + "\n".join(TABLES[found[2]]()) + f"\n\n{found[3]}", text)


def settings_document() -> str:
    """Return the content of `SETTINGS`."""
    return json.dumps(graph_settings_schema(), indent=2) + "\n"


def main() -> None:
    """Write every English page that has changed, and the schema."""
    SETTINGS.write_text(settings_document())
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        if with_tables(text) != text:
            page.write_text(with_tables(text))
            print(f"{page} is written")


if __name__ == "__main__":
    main()
