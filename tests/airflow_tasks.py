"""Airflow without a scheduler: a task instance that keeps XComs and outlet events, and a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Asset
from graph_partitioning.assets import PARTITIONED_GRAPHS, PUBLISHED
from graph_partitioning.operators.base import GraphStageOperator


class OutletEvent:
    """The event of one outlet that a task gives to Airflow."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}
        self.added: list[tuple[Asset, Any]] = []

    def add(self, asset: Asset, extra: Any = None) -> None:
        self.added.append((asset, extra))


class TaskInstance:
    """Keeps the XComs; it is its own context."""

    def __init__(self) -> None:
        self.xcoms: dict[str, Any] = {}
        self.events = {PARTITIONED_GRAPHS: OutletEvent(), PUBLISHED: OutletEvent()}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def run(self, operator: GraphStageOperator) -> Any:
        return operator.execute({"ti": self, "outlet_events": self.events})  # type: ignore[typeddict-item]


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GRAPHS", json.dumps({"conn_type": "aws", **fields}))
