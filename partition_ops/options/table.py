"""Tables of options for the docs, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from partition_ops.options.declare import KINDS, REQUIRED, Option, by_section
from partition_ops.options.values import show_value

HEAD = ("option", "param", "values", "default", "meaning")


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
        rows.append(_row(one))
        for choice in {} if one.by_key is None or not form else one.by_key().values():
            rows.append({**_row(choice), "option": ""})
    lines = [[row[name] for name in columns] for row in rows]
    return [f"| {' | '.join(line)} |" for line in ([*columns], *lines)]


def _row(one: Option) -> dict[str, str]:
    return {
        "option": f"`{one.option_string} {one.metavar or ''}".rstrip() + "`",
        "param": "" if one.form is None or one.by_key is not None else f"`{one.form_name}`",
        "values": _values(one),
        "default": _default(one).replace("<", "\\<"),
        "meaning": one.help.replace("|", "\\|").replace("<", "\\<"),
    }


def _values(one: Option) -> str:
    if one.choices:
        return ("some of " if one.many else "") + ", ".join(f"`{value}`" for value in one.allowed)
    if one.by_key is not None or one.parse is not None:
        return "text"
    noun = KINDS[one.type][1] + (f", {one.range}" if one.range else "")
    return f"several: {noun}" if one.many else noun


def _default(one: Option) -> str:
    if one.default is REQUIRED:
        return "required"
    if one.default is None:
        return one.empty or "none"
    shown = show_value(one, one.default)
    return f"`{shown}`" if shown else one.empty or "none"
