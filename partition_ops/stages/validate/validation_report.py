"""The report of validation, the error that rejects a graph, and lists of the edges to exclude or drop.

`report_rejected_tables` writes the report of tables that ``ingest`` has rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.check import EXAMPLES, Defect
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.expectations import Evaluation, Evaluator
from partition_ops.stages.validate.measurement import Measurement
from partition_ops.stages.validate.metrics import METRICS, Tables, degree_distribution
from partition_ops.storage import Store

REPORT_VERSION = 1
SHOWN = 5
INGEST = "ingest"  # the check of tables that the graph is made from
NO_LISTS: dict[str, dict[str, str]] = {
    kind: {} for kind in (layout.DROPPED, layout.DROPPED_SELF_LOOPS, layout.EXCLUDED)
}
Ids = npt.NDArray[np.int64]
ByType = dict[int, Ids]
EDGE_ACTIONS = ("drop", "exclude", "warn")  # the first applies if an edge has findings with several


def defects_of(found: Measurement, evaluation: Evaluation | None, actions: Mapping[str, str]) -> list[Defect]:
    """Return every defect with the action that is chosen for its check."""
    defects = [
        replace(defect, action=actions.get(defect.check, CHECKS[defect.check].actions[0]))
        for defect in found.defects.all()
    ]
    return defects + (unmet_expectations(evaluation) if evaluation is not None else [])


def unmet_expectations(evaluation: Evaluation) -> list[Defect]:
    """Return the expectations that are not met; ours about checks are left out, which have defects."""
    return [
        Defect(
            check="expectations",
            name=outcome.table,
            count=max(outcome.failed_rows, 1),
            examples=[{"sentence": outcome.sentence, "rows": (outcome.rows or [outcome.table])[:EXAMPLES]}],
            action="fail" if outcome.action in (None, "fail") else "warn",
        )
        for outcome in evaluation.failures
        if outcome.action != "info" and not (outcome.ours and outcome.check in CHECKS)
    ]


def report_document(
    found: Measurement,
    tables: Tables,
    defects: Sequence[Defect],
    evaluation: Evaluation | None,
    *,
    actions: Mapping[str, str],
    lists: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return ``validation/report.json``, in the format of ``schemas/validation_report.schema.json``.

    Args:
        found: What was measured.
        tables: Its metrics.
        defects: What is wrong.
        evaluation: The outcomes of expectations, if Great Expectations was asked.
        actions: By check, what is done about its findings.
        lists: By kind and edge type, the SHA-256 of each list of edges that was written.
    """
    metadata = found.facts.metadata
    counts: dict[str, Any] = {
        "graph_name": metadata.graph_name,
        "num_nodes": dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
        "num_edges": dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True)),
    }
    measured: dict[str, Any] = {
        "degree_distribution": degree_distribution(found),
        "files": sorted(found.facts.files, key=lambda entry: str(entry["path"])),
        **lists,
    }
    passed = not any(defect.action == "fail" for defect in defects)
    return _document(counts, tables, defects, evaluation, measured, actions=actions, passed=passed)


def _document(
    counts: Mapping[str, Any],
    tables: Tables,
    defects: Sequence[Defect],
    evaluation: Evaluation | None,
    measured: Mapping[str, Any],
    *,
    actions: Mapping[str, str],
    passed: bool,
) -> dict[str, Any]:
    keys = ("table", "expectation", "column", "check", "success", "sentence")
    outcomes = evaluation.outcomes if evaluation is not None else []
    return {
        "version": REPORT_VERSION,
        **counts,
        "passed": passed,
        "actions": dict(actions),
        "defects": [{**defect.to_json(), "severity": CHECKS[defect.check].severity} for defect in defects],
        "metrics": tables,
        **measured,
        "expectations": [{key: getattr(outcome, key) for key in keys} for outcome in outcomes],
    }


def write_data_docs(writer: ArtifactWriter, evaluation: Evaluation) -> None:
    """Write the Data Docs to ``validation/data_docs/``."""
    for path in sorted(evaluation.data_docs.rglob("*")):
        if path.is_file():
            key = layout.data_docs(path.relative_to(evaluation.data_docs).as_posix())
            writer.wrote(writer.destination.write_bytes(key, path.read_bytes()))


def rejection(fatal: Sequence[Defect], destination: Store, *, kept: bool = True) -> InvalidInputError:
    """Return the error that names the first findings, and what the user can do.

    Args:
        fatal: The findings.
        destination: Root of the output, which has the report.
        kept: Whether it stays.
    """
    shown = [defect.sentence() for defect in fatal[:SHOWN]]
    if len(fatal) > SHOWN:
        shown.append(f"and {len(fatal) - SHOWN} more")
    expected = sorted({f"no {defect.check} (where {CHECKS[defect.check].finding})" for defect in fatal})
    report = f"The report is {destination.uri_of(layout.VALIDATION_REPORT)}."
    return InvalidInputError(
        f"{len(fatal)} checks failed" if len(fatal) > 1 else f"The check {fatal[0].check} failed",
        found=shown,
        expected=expected,
        remedy=f"Correct the input{_other_actions(fatal)}."
        f" {report if kept else '--output DIR keeps the report.'}",
    )


def _other_actions(fatal: Sequence[Defect]) -> str:
    """Return the options with which the run would go on, if there are any for every finding."""
    actions = {defect.check: CHECKS[defect.check].actions for defect in fatal}
    if any(len(choices) == 1 for choices in actions.values()):
        return ""
    options = [
        f"--on-defect {check}={'|'.join(action for action in choices if action != 'fail')}"
        for check, choices in sorted(actions.items())
    ]
    return f", or continue with {' '.join(options)}"


@dataclass(frozen=True)
class EdgeLists:
    """The edges that each action affects."""

    # by check and edge type ID, ascending type-wise IDs of the edges that the check found
    found: Mapping[str, Mapping[int, Ids]]
    actions: Mapping[str, str]  # by check, what is done about its findings

    @cached_property
    def by_action(self) -> dict[str, ByType]:
        """By action, then edge type ID: ascending type-wise IDs; an edge is listed for one action only."""
        types = sorted({type_id for by_type in self.found.values() for type_id in by_type})
        return {
            action: _without_empty({type_id: self._of(action, type_id) for type_id in types})
            for action in EDGE_ACTIONS
        }

    @property
    def dropped_self_loops(self) -> ByType:
        """By edge type ID, ascending type-wise IDs of the edges that are dropped as self-loops."""
        dropping = self.actions["self_loop_edges"] == "drop"
        return _without_empty(self.found.get("self_loop_edges", {})) if dropping else {}

    def counts(self) -> dict[str, int]:
        """Return how many edges each action affects."""
        totals = {action: sum(map(len, types.values())) for action, types in self.by_action.items()}
        return {
            "edges_dropped": totals["drop"],
            "edges_excluded": totals["exclude"],
            "edges_warned_of": totals["warn"],
        }

    def write(self, writer: ArtifactWriter, metadata: GraphMetadata) -> dict[str, dict[str, str]]:
        """Write ``validation/<kind>/<src:rel:dst>.npy``; return the SHA-256 of each by kind and edge type."""
        lists = {
            layout.DROPPED: self.by_action["drop"],
            layout.DROPPED_SELF_LOOPS: self.dropped_self_loops,
            layout.EXCLUDED: self.by_action["exclude"],
        }
        return {kind: _write(writer, metadata, kind, types) for kind, types in lists.items()}

    def _of(self, action: str, type_id: int) -> Ids:
        before = EDGE_ACTIONS[: EDGE_ACTIONS.index(action)]
        return np.setdiff1d(self._with((action,), type_id), self._with(before, type_id), True)

    def _with(self, actions: Iterable[str], type_id: int) -> Ids:
        """Return the edges of a type that have a finding with one of the actions."""
        empty = np.empty(0, np.int64)
        chosen = [
            by_type.get(type_id, empty)
            for check, by_type in self.found.items()
            if self.actions[check] in actions
        ]
        return np.unique(np.concatenate([empty, *chosen]))


def _without_empty(types: Mapping[int, Ids]) -> ByType:
    return {type_id: ids for type_id, ids in types.items() if len(ids)}


def _write(writer: ArtifactWriter, metadata: GraphMetadata, kind: str, types: ByType) -> dict[str, str]:
    digests = {}
    for type_id, ids in types.items():
        edge_type = str(metadata.edge_types[type_id])
        digests[edge_type] = writer.write_array(layout.edge_list(kind, edge_type), ids).sha256
    return digests


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
            INGEST,
            one["about"],
            one["count"],
            [{"sentence": f"{one['sentence']}: {text}"} for text in one["examples"][:EXAMPLES]]
            or [{"sentence": one["sentence"]}],
            "fail" if one["action"] == "fail" else "warn",
        )
        for one in findings
    ]
    tables = _rejected_metrics(counts, defects)
    writer = ArtifactWriter(destination)
    evaluation = None
    if data_docs:
        with Evaluator(columns=[INGEST]) as evaluator:
            evaluation = evaluator.evaluate(tables)
            write_data_docs(writer, evaluation)
    measured = {"degree_distribution": {}, "files": [], **NO_LISTS}
    actions = {INGEST: "fail"}
    report = _document(counts, tables, defects, evaluation, measured, actions=actions, passed=False)
    writer.write_json(layout.VALIDATION_REPORT, report)


def _rejected_metrics(counts: Mapping[str, Any], defects: Sequence[Defect]) -> Tables:
    """Return the tables of metrics; what was not measured is None."""

    def row(table: str, name: str, **known: Any) -> dict[str, Any]:
        found = sum(defect.count for defect in defects if defect.name == name)
        given = {"name": name, INGEST: found, **known}
        return {column: given.get(column) for column in METRICS[table]}

    nodes, edges = counts["num_nodes"], counts["num_edges"]
    return {
        "graph": [row("graph", counts["graph_name"], nodes=sum(nodes.values()), edges=sum(edges.values()))],
        "node_types": [row("node_types", name, nodes=count) for name, count in nodes.items()],
        "edge_types": [row("edge_types", name, edges=count) for name, count in edges.items()],
        "features": [],
    }
