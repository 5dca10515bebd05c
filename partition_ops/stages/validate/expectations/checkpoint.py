"""A checkpoint of Great Expectations over all tables, and its results as sentences.

Only the child process imports this module.
"""

from __future__ import annotations

import datetime
import difflib
import shutil
import warnings
from pathlib import Path
from string import Template
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.checkpoint.actions import UpdateDataDocsAction
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.registry import list_registered_expectation_implementations

from partition_ops.stages.validate.expectations.data_docs import SITE, SITE_FOLDER, collect_pages
from partition_ops.stages.validate.metrics import METRICS, ROWS

SHOWN_ROWS = 10
SHOWN_IN_SENTENCE = 3
ACTIONS = {"critical": None, "warning": "warn", "info": "info"}
NEED_SQL = {
    "expect_query_results_to_match_comparison",
    "expect_table_row_count_to_equal_other_table",
    "unexpected_rows_expectation",
}
RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": ["name"],
    "return_unexpected_index_query": False,
}
RUN = RunIdentifier(run_name="validation", run_time=datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
"""The same at every run, so that the pages are the same bytes."""

warnings.simplefilter("ignore", DeprecationWarning)


class RejectedError(Exception):
    """An expectation is wrong; ``details`` are the arguments of the error that the parent raises."""

    def __init__(self, problem: str, **details: str) -> None:
        super().__init__(problem)
        self.details = {"problem": problem, **details}


def accept(suites: dict[str, list[dict[str, Any]]]) -> dict[str, gx.ExpectationSuite]:
    """Return the suites for Great Expectations, made from those of `merge_suites`.

    Raises:
        RejectedError: An expectation has an unknown type or wrong arguments.
    """
    return {
        table: gx.ExpectationSuite(
            name=table, expectations=[_expectation(entry, position) for position, entry in enumerate(entries)]
        )
        for table, entries in suites.items()
    }


def _expectation(entry: dict[str, Any], position: int) -> Any:
    config = {key: value for key, value in entry["config"].items() if value is not None and key != "id"}
    known = sorted(set(list_registered_expectation_implementations()) - NEED_SQL)
    if config["type"] not in known:
        like = difflib.get_close_matches(config["type"], known, n=3) or known
        raise RejectedError(
            f"{entry['where']}: there is no such expectation", expected="one of " + ", ".join(like)
        )
    ours = {"where": entry["where"], "ours": entry["ours"], "position": position}
    config["meta"] = {**config.get("meta", {}), **ours}
    try:
        return ExpectationConfiguration(**config).to_domain_obj()
    except Exception as error:  # pydantic's and GX's own errors, and whatever a broken argument causes
        reasons = "; ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
        raise RejectedError(f"{entry['where']} has wrong arguments: {reasons}") from error


def validate(
    suites: dict[str, gx.ExpectationSuite], tables: dict[str, list[dict[str, Any]]], folder: str
) -> list[dict[str, Any]]:
    """Evaluate the tables; the Data Docs go to ``data_docs`` in the folder.

    Returns:
        The arguments of an `Outcome` for each expectation.

    Raises:
        RejectedError: An expectation cannot be evaluated on its table.
    """
    work = Path(folder) / "work"
    work.mkdir(parents=True)
    context = _context(work)
    definitions = [_definition(context, suites[table], table, rows, work) for table, rows in tables.items()]
    checkpoint = gx.Checkpoint(
        name="validation",
        validation_definitions=definitions,
        actions=[UpdateDataDocsAction(name="data_docs")],
        result_format=RESULT_FORMAT,
    )
    results = context.checkpoints.add(checkpoint).run(run_id=RUN).run_results.values()
    outcomes = [
        _outcome(result.suite_name, one)
        for result in results  # in the order of the suite; Great Expectations sorts them by column
        for one in sorted(result.results, key=lambda one: one.expectation_config.meta["position"])
    ]
    collect_pages(Path(context.root_directory) / SITE_FOLDER, Path(folder) / "data_docs")
    shutil.rmtree(work)
    return outcomes


def _context(work: Path) -> Any:
    context: Any = gx.get_context(mode="file", project_root_dir=work)
    context.variables.analytics_enabled = False
    context.variables.progress_bars = {"globally": False}
    context.variables.data_docs_sites = {"data_docs": SITE}
    context.variables.save()
    return context


def _definition(
    context: Any, suite: gx.ExpectationSuite, table: str, rows: list[dict[str, Any]], work: Path
) -> Any:
    """Write a table to a file, and return the validation of its suite."""
    path = work / f"{table}.parquet"
    pd.DataFrame(rows, columns=list(METRICS[table])).to_parquet(path)
    source = context.data_sources.add_pandas(table)
    batch = source.add_parquet_asset(table, path=path).add_batch_definition("all_rows")
    fresh = gx.ExpectationSuite(name=table, expectations=[one.copy(deep=True) for one in suite.expectations])
    definition = gx.ValidationDefinition(name=table, data=batch, suite=context.suites.add(fresh))
    return context.validation_definitions.add(definition)


def _outcome(table: str, result: Any) -> dict[str, Any]:
    """Return the arguments of an `Outcome`, from the result of an expectation.

    Raises:
        RejectedError: The expectation cannot be evaluated.
    """
    info: dict[str, Any] = result.exception_info
    if info.get("raised_exception") is not False:  # one flat record, or one for each metric
        records = [info, *(record for record in info.values() if isinstance(record, dict))]
        messages = [str(one["exception_message"]) for one in records if one.get("exception_message")]
        where = result.expectation_config.meta["where"]
        raise RejectedError(f"{where} cannot be evaluated: " + "; ".join(messages))
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
    """Return what was found, as a sentence."""
    thing = ROWS[table]
    if rows:
        some = ", ".join(_row(row) for row in rows[:SHOWN_IN_SENTENCE])
        more = len(rows) - SHOWN_IN_SENTENCE
        return f"{thing[:1].upper()}{thing[1:]} {some}" + (f" and {more} more" if more > 0 else "")
    if "observed_value" in result.result:
        observed = result.result["observed_value"]
        return f"{table} has " + ("no value" if observed is None else _text(observed))
    return f"Every {thing} meets the expectation"


def _row(row: dict[str, Any]) -> str:
    """Return the name of a row, and the values that do not meet the expectation."""
    values = " and ".join(f"{column} {_text(value)}" for column, value in row.items() if column != "name")
    return f"{row['name']!r}" + (f" has {values}" if values else "")


def _expected(config: Any) -> str:
    """Return the expectation as the user describes it, or as Great Expectations does."""
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
