"""JSON Schemas of options: the fields of the DAG's form, and documents with settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from partition_ops.options.declare import REQUIRED, Option, by_section
from partition_ops.options.values import show_value

TYPES = {int: "integer", float: "number", bool: "boolean"}
NUMBERS = r"^\s*[0-9.eE+-]+\s*(,\s*[0-9.eE+-]+\s*)*$"
NOT_SCHEMA = {"name", "section"}  # of what Option.form may change


def form_options(options: Iterable[Option]) -> list[Option]:
    """Return the options that the form shows, by section, each with its name and section there.

    An option with a choice by key is replaced by one for each key.
    """
    shown: list[Option] = []
    for one in options:
        if one.form is not None:
            shown += [one] if one.by_key is None else one.by_key().values()
    return [one for members in by_section(shown, form=True).values() for one in members]


def value_schema(option: Option) -> dict[str, Any]:
    """Return the JSON Schema of an option's value, with title and default; several values are text."""
    schema: dict[str, Any] = {"type": "string" if option.many else TYPES.get(option.type, "string")}
    if option.nullable:
        schema["type"] = ["null", schema["type"]]
    if option.many and option.choices:
        words = "|".join(map(re.escape, option.allowed))
        schema["pattern"] = f"^({words})(, *({words}))*$"
    elif option.many and option.type is not str:
        schema["pattern"] = NUMBERS
    elif option.choices:
        schema["enum"] = [*option.allowed, *([None] if option.nullable else [])]
    if not option.many:
        bounds = {"minimum": option.minimum, "maximum": option.maximum, "exclusiveMinimum": option.above}
        schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if option.default is not REQUIRED:
        as_text = option.many and option.default is not None
        schema["default"] = show_value(option, option.default, comma=True) if as_text else option.default
    schema["title"] = option.title
    schema["description"] = option.help + (f" Empty: {option.empty}." if option.empty else "")
    return schema | {name: value for name, value in (option.form or {}).items() if name not in NOT_SCHEMA}


def form_fields(*options: Option) -> dict[str, dict[str, Any]]:
    """Return the keyword arguments of Airflow's ``Param`` for every option that the form shows."""
    fields = {}
    for one in form_options(options):
        section = {"section": one.form_section} if one.form_section else {}
        fields[one.form_name] = value_schema(one) | section
    return fields


def settings_schema(options: Iterable[Option], *, name: str, title: str) -> dict[str, Any]:
    """Return the JSON Schema of a document with settings, by the names in the form.

    Args:
        options: The options; those that the form does not show are left out.
        name: Name of the schema's file.
        title: What the document is.
    """
    shown = form_options(options)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": name,
        "title": title,
        "type": "object",
        "required": [one.form_name for one in shown if "default" not in value_schema(one)],
        "propertyNames": {
            "description": "the name of a param of partition_graph",
            "enum": [one.form_name for one in shown],
        },
        "properties": {one.form_name: value_schema(one) for one in shown},
    }
