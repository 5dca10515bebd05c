"""Figures of published graphs reach a StatsD socket, and the dashboard shows exactly what is sent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats
from graph_partitioning.runs import run_root
from statsd import StatsClient

from partition_ops.storage import open_store
from tests.airflow_tasks import TaskInstance
from tests.e2e.statsd import StatsdServer
from tests.graphs import library
from tests.integration.test_operators import run_all

DEPLOY = Path(__file__).parents[2] / "deploy"
PREFIX = "airflow.graph_partitioning"
GRAPH = f"{PREFIX}.graph.small"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StatsdServer, Any]]:
    """What two runs of a graph sent, the second one after the first, and the quality report of the second."""
    server = StatsdServer()
    port = int(server.settings["AIRFLOW__METRICS__STATSD_PORT"])
    client = StatsClient("127.0.0.1", port, prefix="airflow")
    stats.initialize(factory=lambda: SafeStatsdLogger(client), export_legacy_names=True)
    folder = tmp_path_factory.mktemp("metrics")
    where = {"input_uri": str(library().write(folder / "in")), "output_uri": str(folder / "out")}
    run_all({**where, "run_id": "one"}, TaskInstance())
    time.sleep(0.2)
    assert f"{GRAPH}.moved" not in server.values  # the first run follows none
    previous = run_root(where["output_uri"], "small", "one")
    run_all({**where, "run_id": "two"}, TaskInstance(), previous=previous)
    end = time.monotonic() + 10
    while f"{GRAPH}.moved" not in server.values and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    yield server, open_store(run_root(where["output_uri"], "small", "two")).read_json("quality/report.json")
    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


def test_the_figures_are_those_of_the_report(sent: tuple[StatsdServer, Any]) -> None:
    server, report = sent
    found = {name.removeprefix(f"{GRAPH}."): values[-1] for name, values in server.values.items()}
    assert found["edge_cut"] == pytest.approx(report["edge_cut"]["fraction"], rel=1e-5)
    worst = max(one["imbalance"] for one in report["node_types"].values())
    assert found["imbalance"] == pytest.approx(worst, rel=1e-5)
    assert found["bytes"] == sum(part["bytes"] for part in report["partitions"])
    rows = report["training"]["slowest"]["remote_rows_per_batch"]
    assert found["slowest_trainer_rows"] == pytest.approx(rows, rel=1e-5)
    moved = [one for one in report["migration"]["node_types"].values() if one["old"]]
    share = sum(one["moved"] for one in moved) / sum(one["old"] for one in moved)
    assert found["moved"] == pytest.approx(share, abs=1e-5)
    assert found["run_seconds"] > 0
    for name, values in server.values.items():  # with and without the graph in the name
        if name.startswith(f"{GRAPH}."):
            assert server.values[name.replace(".small.", ".")] == values


def test_the_dashboard_shows_what_is_sent_and_nothing_else(sent: tuple[StatsdServer, Any]) -> None:
    mappings = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())["statsd"]["extraMappings"]
    names = {prometheus_name(name, mappings) for name in sent[0].values if name.startswith(PREFIX)} - {None}
    dashboard = json.loads((DEPLOY / "grafana" / "graphs.json").read_text())
    selectors = [
        selector
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for selector in selectors_of(target["expr"])
    ]
    assert len(selectors) == 11
    for selector in selectors:
        assert [name for name in names if selector(name)], "a panel shows a metric that is not sent"
    for name in names:
        assert [True for selector in selectors if selector(name)], f"no panel shows {name}"
    (variable,) = [one["query"] for one in dashboard["templating"]["list"] if one["name"] == "graph"]
    assert re.search(r"label_values\((\w+), graph\)", variable)[1] in names


def prometheus_name(sent: str, mappings: list[dict[str, Any]]) -> str | None:
    """Return the name that Prometheus's StatsD exporter gives a metric, or None if it drops it."""
    for one in mappings:
        if sent.count(".") == one["match"].count(".") and fnmatchcase(sent, one["match"]):
            if one.get("action") == "drop":
                return None
            pattern = re.escape(one["match"]).replace(r"\*", "([^.]+)")
            return re.fullmatch(pattern, sent).expand(one["name"].replace("$", "\\"))
    return sent.replace(".", "_")


def selectors_of(expression: str) -> list[Any]:
    """Return functions that say whether a selector of a PromQL expression has a name."""
    found = []
    for name, matchers in re.findall(r"(\w*)\{([^}]*)\}", expression):
        tests = re.findall(r'__name__(=~|!~)"([^"]*)"', matchers)
        if name:
            tests.append(("=~", name))
        found.append(
            lambda metric, tests=tests: all(
                bool(re.fullmatch(pattern, metric)) == (operator == "=~") for operator, pattern in tests
            )
        )
    return found
