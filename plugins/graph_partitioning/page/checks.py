"""Errors of the params of a run in words, by field, before the run is triggered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.models.serialized_dag import SerializedDagModel
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from sqlalchemy.orm import Session

from graph_partitioning.options import FORM, form, in_form_words, run_config, unknown_params
from partition_ops.errors import PartitionOpsError
from partition_ops.options.declare import options_of

KINDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "a JSON object",
    "null": "empty",
}
BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
}


def check_conf(session: Session, dag_id: str, conf: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the params of a run, by the name of the param; ``""`` for the whole form."""
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    if dag is None:
        return {"": f"There is no DAG {dag_id}."}
    schemas = {name: dag.params.get_param(name).schema for name in dag.params}
    values = {**{name: dag.params[name] for name in dag.params}, **conf}
    errors = {"": unknown_params(conf, schemas)}
    for name, schema in schemas.items():
        found = best_match(
            Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(values[name])
        )
        if found is not None:
            errors[name] = in_words(found)
    if not any(errors.values()) and set(form()) <= set(schemas):  # of our DAG: options may exclude each other
        errors |= check_options(values)
    return {name: text for name, text in errors.items() if text}


def in_words(error: ValidationError) -> str:
    """Return an error of a JSON Schema as a sentence."""
    kind: str = str(error.validator)
    limit: Any = error.validator_value
    if error.instance in (None, "") and kind in ("type", "minLength", "pattern", "enum"):
        return "A value is needed."
    if kind == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        return f"This must be {' or '.join(KINDS.get(one, one) for one in kinds)}."
    if kind in BOUNDS:
        return f"This must be {BOUNDS[kind].format(limit)}."
    if kind == "enum":
        return f"This must be one of: {', '.join(json.dumps(one) for one in limit)}."
    if kind == "pattern":
        return f"{error.instance!r} does not have the form that is described above."
    return f"{error.message[:1].upper()}{error.message[1:]}."


def check_options(values: Mapping[str, Any]) -> dict[str, str]:
    try:
        run_config(values)
    except PartitionOpsError as error:
        text = str(error)
        names = [
            one.form_name
            for one in options_of(*FORM)
            if one.form is not None and one.option_string in text.split()
        ]
        return {names[0] if names else "": in_form_words(text)}
    return {}
