"""Checks as objects, and the actions that a user chooses."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

from partition_ops.errors import UsageError
from partition_ops.stages.validate import checks
from partition_ops.stages.validate.check import Check
from partition_ops.stages.validate.checks import CHECKS, checked_actions, choices, parse_actions
from partition_ops.stages.validate.metrics import METRICS


def test_a_check_is_named_like_its_file() -> None:
    assert set(CHECKS) == {module.name for module in pkgutil.iter_modules(checks.__path__)}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_counted_in_tables_that_exist(name: str) -> None:
    check = CHECKS[name]
    assert {*check.tables, *check.equal_columns} <= set(METRICS)
    for table, columns in check.equal_columns.items():
        assert set(columns) <= set(METRICS[table])


@pytest.mark.parametrize("wrong", [{"severity": "fatal"}, {"actions": ()}, {"actions": ("ignore",)}])
def test_unknown_severities_and_actions_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="known are error, warning"):
        Check(name="wrong", finding="it is wrong", harm="none", **wrong)


def test_an_action_alone_is_for_edges_that_can_be_dropped() -> None:
    assert parse_actions(["drop", "self_loop_edges=warn"]) == {
        "duplicate_edges": "drop",
        "self_loop_edges": "warn",
    }
    assert parse_actions(["nonfinite_values=fail"]) == {"nonfinite_values": "fail"}


def test_actions_that_are_not_chosen_are_the_defaults() -> None:
    actions = checked_actions({"self_loop_edges": "drop"})
    assert actions == {name: allowed[0] for name, allowed in choices().items()} | {"self_loop_edges": "drop"}


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"self_loops": "drop"}, "no check 'self_loops'.*self_loop_edges"),
        ({"missing_files": "warn"}, "no check 'missing_files'"),
        ({"nonfinite_values": "drop"}, "nonfinite_values cannot be 'drop'.*warn, fail"),
    ],
)
def test_unknown_checks_and_actions_are_rejected(chosen: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checked_actions(chosen)
