"""Metrics of tasks and of published runs, which Airflow sends to StatsD or OpenTelemetry."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk.observability.stats import gauge, incr, normalize_name_for_stats, timing

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store

PREFIX = "graph_partitioning"
GRAPH_METRICS = {  # names of figures in `run_figures.summary`
    "edge_cut": "edge_cut",
    "worst_imbalance": "imbalance",
    "slowest_rows": "slowest_trainer_rows",
    "moved": "moved",
    "bytes": "bytes",
}
SECONDS = "run_seconds"


def report_metrics(result: StageResult, destination: Store) -> None:
    """Send seconds, rates and peak memory of a task, under the name of its stage.

    Tasks of the same kind share a name (``graph_partitioning.convert.part.seconds``) for all graphs, because
    a time series for each partition of each graph would be too many. A task that was already done only sends
    that it was skipped.

    Args:
        result: Result of the stage.
        destination: Root of the run, with the task's record.
    """
    from partition_ops.artifacts.layout import record
    from partition_ops.artifacts.records import read_record

    name = f"{PREFIX}.{re.sub(r'[0-9]+$', '', result.task).replace('-', '.')}"
    if result.skipped:
        incr(f"{name}.skipped")
        return
    timing(f"{name}.seconds", timedelta(seconds=result.seconds))
    if result.record != record(result.task):  # publish writes a manifest instead
        return
    found = read_record(destination, result.task)
    seconds = max(result.seconds, 0.001)
    gauge(f"{name}.peak_memory_bytes", found["peak_memory_bytes"])
    gauge(f"{name}.bytes_per_second", sum(entry["size"] for entry in found["artifacts"]) / seconds)
    edges = result.counters.get("edges", result.counters.get("num_edges"))
    if isinstance(edges, int):
        gauge(f"{name}.edges_per_second", edges / seconds)


def report_graph_metrics(run: Store, graph_name: str) -> None:
    """Send the figures of a published run, under the name of its graph.

    Each is sent twice, as Airflow sends its own metrics: as ``graph_partitioning.graph.edge_cut`` with the
    tag ``graph`` for OpenTelemetry and for StatsD servers with tags, and as
    ``graph_partitioning.graph.<graph>.edge_cut`` for StatsD servers without them. Figures that a run does
    not have, such as the share of moved nodes of a first run, are left out.

    Args:
        run: Root of the published run.
        graph_name: Name of the graph.
    """
    from partition_ops.artifacts.layout import QUALITY_REPORT
    from partition_ops.artifacts.run_figures import seconds_by_stage, summary

    figures = summary(run.read_json(QUALITY_REPORT))
    values = {metric: figures[name] for name, metric in GRAPH_METRICS.items()}
    values[SECONDS] = sum(seconds_by_stage(run).values())
    # a dot would be another level of the name
    named = normalize_name_for_stats(graph_name, log_warning=False).replace(".", "_")
    for metric, value in values.items():
        if value is not None:
            gauge(f"{PREFIX}.graph.{metric}", value, tags={"graph": graph_name})
            gauge(f"{PREFIX}.graph.{named}.{metric}", value)
