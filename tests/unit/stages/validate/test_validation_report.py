"""Defects made of expectations that are not met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.expectations import Evaluation, Outcome
from partition_ops.stages.validate.validation_report import unmet_expectations


def outcome(**changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "table": "edge_types",
        "ours": False,
        "expectation": "expect_column_values_to_be_between",
        "column": "duplicate_edges",
        "check": None,
        "action": None,
        "success": False,
        "rows": ["a:b:c"],
        "failed_rows": 1,
        "observed": None,
        "sentence": "Too many",
    }
    return Outcome(**{**values, **changes})


def actions(one: Outcome) -> list[str]:
    return [defect.action for defect in unmet_expectations(Evaluation([one], Path()))]


@pytest.mark.parametrize(
    ("action", "expected"), [(None, ["fail"]), ("fail", ["fail"]), ("warn", ["warn"]), ("info", [])]
)
def test_what_fails_is_the_users_choice(action: str | None, expected: list[str]) -> None:
    assert actions(outcome(action=action)) == expected


def test_what_is_met_is_no_finding() -> None:
    assert actions(outcome(success=True)) == []


@pytest.mark.parametrize("check", CHECKS)
def test_a_users_expectation_counts_also_under_the_name_of_one_of_our_checks(check: str) -> None:
    assert actions(outcome(check=check, ours=True)) == []
    assert actions(outcome(check=check)) == ["fail"]
