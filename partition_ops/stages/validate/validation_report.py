"""``validation/report.json``, and the error that names the findings for which a graph is rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.defects import EXAMPLES, Defect
from partition_ops.stages.validate.expectations import Evaluation, Outcome
from partition_ops.stages.validate.measurement import Measurement
from partition_ops.stages.validate.metrics import Tables, degree_distribution
from partition_ops.storage import Store

REPORT_VERSION = 1
SHOWN = 5
NO_LISTS: dict[str, dict[str, str]] = {
    kind: {} for kind in (layout.DROPPED, layout.DROPPED_SELF_LOOPS, layout.EXCLUDED)
}


def defects_of(found: Measurement, evaluation: Evaluation | None, actions: Mapping[str, str]) -> list[Defect]:
    """Return every defect with the action that is chosen for its check."""
    defects = [replace(defect, action=actions.get(defect.check, "fail")) for defect in found.defects.all()]
    return defects + (unmet_expectations(evaluation) if evaluation is not None else [])


def unmet_expectations(evaluation: Evaluation) -> list[Defect]:
    """Return the expectations that are not met; ours about checks are left out, which have defects."""
    known = [one for one in evaluation.failures if one.ours and one.check in CHECKS]
    return [_defect(one) for one in evaluation.failures if one not in known and one.action != "info"]


def _defect(outcome: Outcome) -> Defect:
    names = outcome.rows or [outcome.table]
    return Defect(
        check="expectations",
        name=outcome.table,
        count=max(outcome.failed_rows, 1),
        examples=[{"sentence": outcome.sentence, "rows": names[:EXAMPLES]}],
        action="fail" if outcome.action in (None, "fail") else "warn",
    )


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
    return {
        "version": REPORT_VERSION,
        "graph_name": metadata.graph_name,
        "num_nodes": dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
        "num_edges": dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True)),
        "passed": not any(defect.action == "fail" for defect in defects),
        "actions": dict(actions),
        "defects": [{**defect.to_json(), "severity": CHECKS[defect.check].severity} for defect in defects],
        "metrics": tables,
        "degree_distribution": degree_distribution(found),
        "files": sorted(found.facts.files, key=lambda entry: str(entry["path"])),
        **lists,
        "expectations": _outcomes(evaluation),
    }


def _outcomes(evaluation: Evaluation | None) -> list[dict[str, Any]]:
    """Return all expectations, the user's and ours, and whether they are met."""
    if evaluation is None:
        return []
    keys = ("table", "expectation", "column", "check", "success", "sentence")
    return [{key: getattr(outcome, key) for key in keys} for outcome in evaluation.outcomes]


def rejection(fatal: Sequence[Defect], destination: Store) -> InvalidInputError:
    """Return the error that names the first findings, and what the user can do."""
    shown = [defect.sentence() for defect in fatal[:SHOWN]]
    if len(fatal) > SHOWN:
        shown.append(f"and {len(fatal) - SHOWN} more")
    expected = sorted({f"no {defect.check}: {CHECKS[defect.check].finding}" for defect in fatal})
    report = destination.uri_of(layout.VALIDATION_REPORT)
    return InvalidInputError(
        f"{len(fatal)} checks failed" if len(fatal) > 1 else f"The check {fatal[0].check} failed",
        found=shown,
        expected=expected,
        remedy=f"Correct the input{_other_actions(fatal)}. The report is {report}.",
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
