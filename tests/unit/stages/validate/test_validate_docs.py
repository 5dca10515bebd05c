"""The pages and the schema of the report have every check, action and metric of the code."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from partition_ops.stages.validate.check import ACTIONS, SEVERITIES
from partition_ops.stages.validate.checks import CHECKS, choices
from partition_ops.stages.validate.metrics import METRICS
from partition_ops.system.json_documents import schema_document

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "validation.md"


def test_the_table_of_checks_is_made_of_the_checks() -> None:
    tables = runpy.run_path(str(DOCS / "tables.py"))
    assert "\n".join(tables["checks_table"]()) in PAGE.read_text(), "run 'make reference'"


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_on_the_page(action: str) -> None:
    assert f"| `{action}` | " in PAGE.read_text()


def test_the_page_has_no_other_check() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {*CHECKS, *ACTIONS}


@pytest.mark.parametrize(
    ("table", "column"), [(table, c) for table, columns in METRICS.items() for c in columns if c != "name"]
)
def test_a_metric_is_on_the_page_of_expectations_or_the_count_of_a_check(table: str, column: str) -> None:
    blocks = (DOCS / "expectations.md").read_text().split("\n\n")
    (rows,) = (block for block in blocks if block.startswith(f"| `{table}`"))
    assert column in CHECKS or f"`{column}`" in rows


def test_only_duplicates_and_self_loops_can_be_dropped() -> None:
    """ID maps name one of these two checks for a dropped edge, and verification finds them on its own."""
    dropped = {name for name, actions in choices().items() if "drop" in actions}
    assert dropped == {"duplicate_edges", "self_loop_edges"}


def test_the_schema_of_the_report_has_every_action_and_severity() -> None:
    properties = schema_document("validation_report")["properties"]
    finding = properties["defects"]["items"]["properties"]
    assert properties["actions"]["additionalProperties"]["enum"] == list(ACTIONS)
    assert finding["action"]["enum"] == list(ACTIONS)
    assert finding["severity"]["enum"] == list(SEVERITIES)
