"""Measure a graph, decide about what is wrong with it, and write the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, check_apart, run_task
from partition_ops.chunked.metadata import (
    METADATA,
    GraphMetadata,
    known_metadata_keys,
    load_metadata,
    read_metadata_document,
)
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.affected import AffectedEdges
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.defects import Defect
from partition_ops.stages.validate.judged import (
    judge_if_wanted,
    keep_data_docs,
    outcomes_json,
    suites_in,
    unmet,
)
from partition_ops.stages.validate.measure import Measurement, measure_graph
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.tables import degree_distribution, metrics
from partition_ops.storage import Store, StoredObject
from partition_ops.system.progress import NoProgress, Progress

REPORT_VERSION = 1
SHOWN = 5
NO_LISTS: dict[str, dict[str, str]] = {
    kind: {} for kind in (layout.DROPPED, layout.DROPPED_SELF_LOOPS, layout.EXCLUDED)
}


def validate_graph(
    config: ValidateConfig,
    source: Store,
    destination: Store,
    *,
    expectations: Store | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Check a graph, write ``validation/report.json``, and refuse what a later stage could not work on.

    Every file is read once, on all cores; what is wrong is collected, so that one call names it all. The
    checks are in `partition_ops.stages.validate.checks`. Edges to be dropped are listed by type-wise ID in
    ``validation/dropped/<src:rel:dst>.npy`` (those that are dropped as self-loops once more, in
    ``validation/dropped_self_loops/``), those that are to be kept from the partitioner in
    ``validation/excluded/``; there is a list only where it has an edge. Where the config or the user's
    own expectations ask for it, Great Expectations judges the metrics in a process of its own, which gets
    ready while the files are read, and its Data Docs go to ``validation/data_docs/``.

    Args:
        config: Options, among them what to do about the findings of each check.
        source: Root of the input graph.
        destination: Root of the run.
        expectations: Folder with the user's own expectation suites.
        progress: Shows the edges checked.

    Returns:
        Counts of nodes and edges, of the findings of each check, and of the duplicate and self-loop edges
        that each action affects.

    Raises:
        InvalidInputError: Something is wrong that must not pass; the message names file, type, row and
            value of the first findings, and the report, which is there all the same, the first ten of
            each check.

    Peak memory: ``config.memory`` (default: a quarter of what the machine or its cgroup allows), 24 bytes
    a node, a block of edges for each core, and one chunk of a feature that cannot be mapped.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    actions = config.actions
    suites = suites_in(expectations)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        _forget_refused(destination)
        with judge_if_wanted(data_docs=config.data_docs, suites=suites) as judge:
            found = measure_graph(metadata, source, progress or NoProgress(), memory=config.memory)
            _report_unknown_keys(source, found)
            verdict = judge.judge(metrics(metadata, found)) if judge else None
            if verdict:
                keep_data_docs(task, verdict)
        defects = _decided(found, actions) + (unmet(verdict) if verdict else [])
        fatal = [defect for defect in defects if defect.action == "fail"]
        affected = AffectedEdges(found.repeated, found.self_loops, actions)
        lists = NO_LISTS if fatal else affected.write(task, metadata)
        report = {**_report(metadata, found, defects, actions), **lists}
        report["expectations"] = outcomes_json(verdict)
        task.write_json(layout.VALIDATION_REPORT, report)
        if fatal:
            raise _refusal(fatal, destination)
        return {
            "graph_name": metadata.graph_name,
            "nodes": sum(metadata.num_nodes),
            "edges": sum(metadata.num_edges),
            "defects": {f"{defect.check} {defect.name}": defect.count for defect in defects},
            **affected.counts(),
        }

    inputs = _present_objects(source, metadata)
    options = config.options()
    options.pop("memory")  # it changes how the result is reached, not the result
    options["expectations"] = [suite.document for suite in suites]
    return run_task("validate", destination, options=options, inputs=inputs, work=work)


def _forget_refused(destination: Store) -> None:
    """Remove the pages and lists of a validation that left no record, because it refused or was killed."""
    for prefix in layout.validation_folders():
        destination.delete_prefix(prefix)


def _present_objects(source: Store, metadata: GraphMetadata) -> list[StoredObject]:
    """Identity of the files that are there; those that are not are a finding of this stage."""
    found = source.stat_all([METADATA, *metadata.files()])
    return [entry for entry in found if entry is not None]


def _decided(found: Measurement, actions: dict[str, str]) -> list[Defect]:
    """Every finding with what is to be done about it."""
    return [replace(defect, action=actions.get(defect.check, "fail")) for defect in found.defects.all()]


def _report(
    metadata: GraphMetadata,
    found: Measurement,
    defects: list[Defect],
    actions: dict[str, str],
) -> dict[str, Any]:
    return {
        "version": REPORT_VERSION,
        "graph_name": metadata.graph_name,
        "num_nodes": dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
        "num_edges": dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True)),
        "passed": not any(defect.action == "fail" for defect in defects),
        "actions": actions,
        "defects": [{**defect.to_json(), "severity": CHECKS[defect.check].severity} for defect in defects],
        "metrics": metrics(metadata, found),
        "degree_distribution": degree_distribution(metadata, found),
        "files": sorted(found.files, key=lambda entry: str(entry["path"])),
    }


def _refusal(fatal: list[Defect], destination: Store) -> InvalidInputError:
    shown = [defect.sentence() for defect in fatal[:SHOWN]]
    if len(fatal) > SHOWN:
        shown.append(f"and {len(fatal) - SHOWN} more")
    expected = sorted({f"no {defect.check}: {CHECKS[defect.check].finding}" for defect in fatal})
    report = destination.uri_of(layout.VALIDATION_REPORT)
    return InvalidInputError(
        f"{len(fatal)} checks failed" if len(fatal) > 1 else f"The check {fatal[0].check} failed",
        found=shown,
        expected=expected,
        remedy=f"Mend the input{_way_out(fatal)}. The report is {report}.",
    )


def _way_out(fatal: list[Defect]) -> str:
    """The options with which the run would go on, where there are any for every finding."""
    actions = {defect.check: CHECKS[defect.check].actions for defect in fatal}
    if any(len(choices) == 1 for choices in actions.values()):
        return ""
    options = [
        f"--on-defect {check}={'|'.join(action for action in choices if action != 'fail')}"
        for check, choices in sorted(actions.items())
    ]
    return f", or go on with {' '.join(options)}"


def _report_unknown_keys(source: Store, found: Measurement) -> None:
    """A misspelt section would lose its features silently."""
    document = read_metadata_document(source)
    unknown = sorted(set(document) - known_metadata_keys())
    examples = [{"sentence": f"metadata.json has {key!r}, which nobody reads"} for key in unknown]
    edges = sorted(set(document["edges"]) - set(document["edge_type"]))
    examples += [
        {"sentence": f"metadata.json has edges of {name!r}, which is no edge type"} for name in edges
    ]
    unknown += edges
    found.defects.add("unknown_keys", METADATA, len(unknown), examples)
