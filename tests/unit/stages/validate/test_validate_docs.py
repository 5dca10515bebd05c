"""docs/validation.md lists every check as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.stages.validate.check import ACTIONS
from partition_ops.stages.validate.checks import CHECKS, choices, docs_table

PAGE = Path(__file__).parents[4] / "docs/validation.md"


def test_the_table_of_checks_is_made_of_the_checks() -> None:
    assert "\n".join(docs_table()) in PAGE.read_text(), "replace the table of docs/validation.md"


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_on_the_page(action: str) -> None:
    assert f"| `{action}` | " in PAGE.read_text()


def test_the_page_has_no_other_check() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {*CHECKS, *ACTIONS}


def test_edges_are_what_can_be_dropped_or_excluded() -> None:
    edges = {"duplicate_edges", "self_loop_edges"}
    assert {name for name, actions in choices().items() if "drop" in actions or "exclude" in actions} == edges
