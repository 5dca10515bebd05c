"""Tests over many graphs; all of them have the marker ``long``."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.airflow_home  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.long)
