"""Metrics of stages, sent to StatsD or OpenTelemetry as Airflow is configured."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk.observability.stats import gauge, incr, timing

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store

PREFIX = "graph_partitioning"


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
