"""Tests over many graphs, which ``make test`` runs last, and the time that they may take."""

from __future__ import annotations

import time

import pytest

from tests.integration.conftest import _few_charts  # noqa: F401 (a fixture for these tests too)

BUDGET = 240  # seconds on a quiet machine of two cores
STARTED = time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the budget beside the time that the tests took."""
    seconds = time.monotonic() - STARTED
    terminalreporter.write_line(f"tests/long: {seconds:.0f} s of a budget of {BUDGET} s")
