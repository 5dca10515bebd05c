"""Fixtures of the tests of whole jobs over small graphs."""

from __future__ import annotations

import pytest

import tests.airflow_home  # noqa: F401


@pytest.fixture(autouse=True)
def _few_charts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take half the time of a run over a small graph: only what is marked ``charts`` draws them."""
    if request.node.get_closest_marker("charts") is None:
        for name in ("quality_page", "time_chart"):
            monkeypatch.setattr(f"partition_ops.stages.quality.page.{name}", lambda *given: "")
