"""What a stage did, as metrics of Airflow: StatsD or OpenTelemetry, whichever it is set up for."""

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

    The tasks of one kind share their names (``graph_partitioning.convert.part.seconds``), whatever the graph:
    a time series for each partition of each graph would be too many. A task that was found done sends only
    that it was skipped.

    Args:
        result: What the stage gave back.
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
