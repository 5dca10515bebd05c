"""The report and the Data Docs of tables that ``ingest`` has rejected: there is no graph to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.defects import EXAMPLES, Defect
from partition_ops.stages.validate.expectations import Evaluator
from partition_ops.stages.validate.metrics import METRICS, Tables
from partition_ops.stages.validate.validate import write_data_docs
from partition_ops.stages.validate.validation_report import NO_LISTS, REPORT_VERSION, outcomes_of
from partition_ops.storage import Store

CHECK = "ingest"


def report_rejected_tables(
    counts: Mapping[str, Any], findings: Sequence[Mapping[str, Any]], destination: Store, *, data_docs: bool
) -> None:
    """Write ``validation/report.json``, in the format of `validate_graph`, with what is known.

    Args:
        counts: ``graph_name``, and ``num_nodes`` and ``num_edges`` by type.
        findings: What is wrong: ``about`` (a type), ``sentence``, ``examples``, ``count``, ``action``.
        destination: Root of the graph.
        data_docs: Also write Great Expectations' Data Docs, which takes some seconds.
    """
    defects = [
        Defect(
            CHECK,
            one["about"],
            one["count"],
            [{"sentence": f"{one['sentence']}: {text}"} for text in one["examples"][:EXAMPLES]]
            or [{"sentence": one["sentence"]}],
            "fail" if one["action"] == "fail" else "warn",
        )
        for one in findings
    ]
    tables = _tables(counts, defects)
    writer = ArtifactWriter(destination)
    evaluation = None
    if data_docs:
        with Evaluator(columns=[CHECK]) as evaluator:
            evaluation = evaluator.evaluate(tables)
            write_data_docs(writer, evaluation)
    report = {
        "version": REPORT_VERSION,
        **counts,
        "passed": False,
        "actions": {CHECK: "fail"},
        "defects": [{**defect.to_json(), "severity": CHECKS[CHECK].severity} for defect in defects],
        "metrics": tables,
        "degree_distribution": {},
        "files": [],
        **NO_LISTS,
        "expectations": outcomes_of(evaluation),
    }
    writer.write_json(layout.VALIDATION_REPORT, report)


def _tables(counts: Mapping[str, Any], defects: Sequence[Defect]) -> Tables:
    """Return the tables of metrics; what was not measured is None."""

    def row(table: str, name: str, **known: Any) -> dict[str, Any]:
        found = sum(defect.count for defect in defects if defect.name == name)
        given = {"name": name, CHECK: found, **known}
        return {column: given.get(column) for column in METRICS[table]}

    nodes, edges = counts["num_nodes"], counts["num_edges"]
    return {
        "graph": [row("graph", counts["graph_name"], nodes=sum(nodes.values()), edges=sum(edges.values()))],
        "node_types": [row("node_types", name, nodes=count) for name, count in nodes.items()],
        "edge_types": [row("edge_types", name, edges=count) for name, count in edges.items()],
        "features": [],
    }
