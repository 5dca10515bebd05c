"""The review of a run that waits for approval: its figures beside limits and beside the published run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.page.comparison import Table, compare_runs
from graph_partitioning.page.graphs import Graph
from partition_ops.artifacts.layout import QUALITY_REPORT, RUNS
from partition_ops.errors import UsageError
from partition_ops.options.values import build, parse_settings
from partition_ops.stages.publish.gate import Limited, limited_figures
from partition_ops.stages.publish.options import Gate
from partition_ops.stages.publish.run_index import draft_entry


@dataclass(frozen=True)
class Review:
    """What a person needs to approve a run.

    Attributes:
        limits: The figures that have limits.
        tables: Comparison with the published run, which is A; none if there is none.
        moved: A sentence about what moved between the two.
    """

    limits: list[Limited]
    tables: list[Table]
    moved: str


def limits_of(conf: Mapping[str, Any]) -> Gate:
    """Return the limits in the params of a run; none if they are wrong, which the run itself says."""
    try:
        return build(Gate, parse_settings(Gate, conf))
    except UsageError:
        return Gate()


def read_review(graph: Graph, name: str, conf: Mapping[str, Any]) -> Review:
    """Read the review of a run of a graph.

    Args:
        graph: The graph, with its figures.
        name: Name of the folder of the run.
        conf: Params of the run.

    Raises:
        PartitionOpsError: The storage cannot be reached, or a report is missing or broken.
    """
    gate = limits_of(conf)
    published = graph.newest
    with GraphStorageHook(graph.storage_conn_id).open(graph.root) as root:
        run = root.child(f"{RUNS}/{name}")
        limits = limited_figures(gate, run)
        if published is None:
            return Review(limits, [], "")
        names = (str(published["run"]), name)
        reports = [root.child(f"{RUNS}/{one}").read_json(QUALITY_REPORT) for one in names]
        tables, moved = compare_runs((published, draft_entry(run)), (reports[0], reports[1]))
    return Review(limits, tables, moved)
