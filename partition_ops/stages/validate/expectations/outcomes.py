"""Results of Great Expectations as plain sentences. Only the child process imports this."""

from __future__ import annotations

from string import Template
from typing import Any

from partition_ops.stages.validate.expectations.metrics import THINGS

SHOWN_ROWS = 10
SHOWN_IN_SENTENCE = 3
ACTIONS = {"critical": None, "warning": "warn", "info": "info"}


def outcome_of(table: str, result: Any) -> dict[str, Any]:
    """The arguments of an `Outcome`, from one result of an expectation."""
    config = result.expectation_config
    rows = result.result.get("unexpected_index_list") or []
    observed = result.result.get("observed_value")
    return {
        "table": table,
        "ours": config.meta["ours"],
        "expectation": config.type,
        "column": config.kwargs.get("column"),
        "check": config.meta.get("check"),
        "action": config.meta.get("action")
        or ACTIONS[str(getattr(config.severity, "value", config.severity))],
        "success": bool(result.success),
        "rows": [str(row["name"]) for row in rows[:SHOWN_ROWS]],
        "failed_rows": len(rows),
        "observed": None if observed is None else _text(observed),
        "sentence": f"{_found(table, result, rows)}; expected: {_expected(config)}",
    }


def _found(table: str, result: Any, rows: list[dict[str, Any]]) -> str:
    """What the data are like."""
    thing = THINGS[table]
    if rows:
        some = ", ".join(_row(row) for row in rows[:SHOWN_IN_SENTENCE])
        more = len(rows) - SHOWN_IN_SENTENCE
        return _capital(f"{thing} {some}" + (f" and {more} more" if more > 0 else ""))
    if "observed_value" in result.result:
        observed = result.result["observed_value"]
        return f"{table} has " + ("no value" if observed is None else _text(observed))
    return f"Every {thing} is as it should be"


def _row(row: dict[str, Any]) -> str:
    """The name and the values that did it."""
    values = " and ".join(f"{column} {_text(value)}" for column, value in row.items() if column != "name")
    return f"{row['name']!r}" + (f" has {values}" if values else "")


def _expected(config: Any) -> str:
    """The expectation in Great Expectations' own words, or in the user's."""
    if config.description:
        return str(config.description)
    expectation = config.to_domain_obj()
    expectation.render()
    try:
        value = expectation.rendered_content[0].value
        params = {name: _text(param["value"]) for name, param in (value.params or {}).items()}
        return Template(value.template).safe_substitute(params)
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
    ):  # an expectation that renders a table or a graph
        return f"{config.type} {config.kwargs}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
