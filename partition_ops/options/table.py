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
