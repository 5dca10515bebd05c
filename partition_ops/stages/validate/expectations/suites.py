"""Expectation suites: reading them, and the checks that do not need Great Expectations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.metrics import METRICS, expectation_suites
from partition_ops.storage import Store
from partition_ops.system.extras import check_installed
from partition_ops.system.json_documents import check_document

_CONDITION = re.compile(r'col\("([a-z_]+)"\)')


@dataclass(frozen=True)
class Suite:
    """One file with expectations on one table."""

    where: str  # URI of the file, for messages
    document: dict[str, Any]  # the parsed file, in the format of ``schemas/expectation_suite.schema.json``
    ours: bool = False  # whether it belongs to this project, and not to the user

    @property
    def table(self) -> str:
        """The table that the expectations are about."""
        return str(self.document["name"])


def base_suites() -> list[Suite]:
    """Return the suites of this project, which follow from the metrics and the checks."""
    return [Suite(f"suite {table}", document, ours=True) for table, document in expectation_suites().items()]


def read_suites(store: Store) -> list[Suite]:
    """Read every ``.json`` file directly below the root of a store, in the order of their names.

    Raises:
        InvalidInputError: There is no such file, or one of them is not JSON.
    """
    keys = [entry.key for entry in store.list() if entry.key.endswith(".json") and "/" not in entry.key]
    if not keys:
        raise InvalidInputError(
            f"{store.uri} holds no expectation suites",
            expected="files with the suffix .json, each a suite of Great Expectations",
            remedy="docs/expectations.md shows how to write one.",
        )
    return [Suite(store.uri_of(key), store.read_json(key)) for key in keys]


def check_suite(suite: Suite) -> None:
    """Raise InvalidInputError unless a suite matches the format and names columns of its table.

    Raises:
        InvalidInputError: With the file, the expectation and what was expected there.
    """
    check_document(suite.document, "expectation_suite", where=suite.where)
    known = METRICS[suite.table]
    for position, expectation in enumerate(suite.document["expectations"]):
        for option, column in _columns(expectation["kwargs"]):
            if column not in known:
                raise InvalidInputError(
                    f"{suite.where}: expectations[{position}].kwargs.{option} names a column"
                    f" that table {suite.table!r} does not have",
                    found=repr(column),
                    expected="one of " + ", ".join(known),
                )


def _columns(kwargs: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for option in ("column", "column_A", "column_B"):
        if option in kwargs:
            yield option, kwargs[option]
    for column in kwargs.get("column_list", ()):
        yield "column_list", column
    for column in _CONDITION.findall(kwargs.get("row_condition", "")):
        yield "row_condition", column


def merge_suites(suites: Iterable[Suite]) -> dict[str, list[dict[str, Any]]]:
    """Return the expectations of each table, in the order of the suites.

    Returns:
        For each table of `METRICS` its expectations, each with ``where`` for messages and ``ours``
        beside the ``config`` that Great Expectations takes.
    """
    merged: dict[str, list[dict[str, Any]]] = {table: [] for table in METRICS}
    for suite in suites:
        for position, expectation in enumerate(suite.document["expectations"]):
            where = f"{suite.where}: expectations[{position}] ({expectation['type']})"
            merged[suite.table].append({"where": where, "ours": suite.ours, "config": expectation})
    return merged


def all_suites(extra: Sequence[Suite]) -> list[Suite]:
    """Return our suites, then the user's, all checked.

    Raises:
        InvalidInputError: One of them is wrong.
    """
    suites = [*base_suites(), *extra]
    for suite in suites:
        check_suite(suite)
    return suites


def check_evaluator_installed() -> None:
    """Check that Great Expectations is installed, which checks suites and writes Data Docs."""
    check_installed("Checking expectations", "great_expectations")
