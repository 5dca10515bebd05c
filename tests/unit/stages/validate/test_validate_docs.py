"""docs/validation.md lists every check as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.options.check_actions import ACTIONS, CHECKS, choices

PAGE = Path(__file__).parents[4] / "docs/validation.md"


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_on_the_page(name: str) -> None:
    check = CHECKS[name]
    cells = (f"`{name}`", check.severity, ", ".join(check.actions), check.finding, check.harm)
    assert f"| {' | '.join(cells)} |" in PAGE.read_text().splitlines()


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_on_the_page(action: str) -> None:
    assert f"| `{action}` | " in PAGE.read_text()


def test_no_check_is_on_the_page_that_is_none() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {*CHECKS, *ACTIONS}


def test_edges_are_what_can_be_dropped_or_excluded() -> None:
    edges = {"duplicate_edges", "self_loop_edges"}
    assert {name for name, actions in choices().items() if "drop" in actions or "exclude" in actions} == edges
