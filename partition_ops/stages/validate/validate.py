"""The stage ``validate``: measure a graph, decide about what is wrong with it, and write the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import remove_leftovers
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.validate.expectations import Evaluator, Suite, read_suites
from partition_ops.stages.validate.expectations.suites import check_evaluator_installed
from partition_ops.stages.validate.measurement import measure_graph
from partition_ops.stages.validate.metrics import metrics
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.spread import Spread, existing_objects
from partition_ops.stages.validate.user_keys import FindRows, with_keys
from partition_ops.stages.validate.validation_report import (
    NO_LISTS,
    EdgeLists,
    defects_of,
    rejection,
    report_document,
    write_data_docs,
)
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress


def validate_graph(
    config: ValidateConfig,
    source: Store,
    destination: Store,
    *,
    expectations: Store | None = None,
    kept: bool = True,
    find_rows: FindRows | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Check a graph, write ``validation/report.json``, and reject a graph that later stages cannot work on.

    Every file is read once, on all cores; all findings are collected, so that one call names them all. The
    checks are in `partition_ops.stages.validate.checks`. Edges to be dropped are listed by type-wise ID in
    ``validation/dropped/<src:rel:dst>.npy`` (those that are dropped as self-loops again in
    ``validation/dropped_self_loops/``), edges that the partitioner does not see in ``validation/excluded/``;
    an edge type without such edges has no list. If the config asks for it or there are expectations, Great
    Expectations checks the metrics in a process of its own, which starts while the files are read, and its
    Data Docs go to ``validation/data_docs/``.

    Args:
        config: Options, among them what to do about the findings of each check.
        source: Root of the input graph.
        destination: Root of the run.
        expectations: Folder with the user's own expectation suites.
        kept: Whether the destination stays, so that an error can name the report.
        find_rows: Finds the rows of tables that nodes and edges were made from, if the graph is rejected.
        progress: Shows the edges checked.

    Returns:
        Counts of nodes and edges, of the findings of each check, and of the edges that each action affects.

    Raises:
        InvalidInputError: A check whose action is ``fail`` has findings. The message names file, type, row
            and value of the first ones; the report, which is written anyway, has the first ten of each check.

    With ``config.validation_tasks`` above 1, this does the tasks of `Spread` that are not done, one after
    another, and then the rest.

    Peak memory: ``config.memory`` (default: a quarter of what the machine or its cgroup allows), 10 bytes
    a node, a block of edges for each core, and one chunk of a feature that cannot be mapped. With several
    tasks: that of the largest, see `Spread`.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    if config.data_docs or expectations is not None:
        check_evaluator_installed()
    suites = [] if expectations is None else read_suites(expectations)
    spread = Spread(config, source, destination, progress) if config.validation_tasks > 1 else None

    def work(writer: ArtifactWriter) -> Counters:
        remove_leftovers(destination, "validation")  # of one that failed or was killed
        with _started_evaluator(config, suites) as evaluator:
            if spread is None:
                found = measure_graph(metadata, source, progress or NoProgress(), memory=config.memory)
            else:
                found = spread.measure()
            tables = metrics(found)
            evaluation = evaluator.evaluate(tables) if evaluator is not None else None
            if evaluation is not None:
                write_data_docs(writer, evaluation)
        defects = defects_of(found, evaluation, config.actions)
        fatal = [defect for defect in defects if defect.action == "fail"]
        if fatal:
            defects = with_keys(defects, metadata, source, find_rows)
            fatal = [defect for defect in defects if defect.action == "fail"]
        edges = EdgeLists(found.edge_ids, config.actions)
        lists = NO_LISTS if fatal else edges.write(writer, metadata)
        report = report_document(found, tables, defects, evaluation, actions=config.actions, lists=lists)
        writer.write_json(layout.VALIDATION_REPORT, report)
        if fatal:
            raise rejection(fatal, destination, kept=kept)
        return {
            "graph_name": metadata.graph_name,
            "nodes": sum(metadata.num_nodes),
            "edges": sum(metadata.num_edges),
            "defects": {f"{defect.check} {defect.name}": defect.count for defect in defects},
            **edges.counts(),
        }

    options = {**config.options(), "expectations": [suite.document for suite in suites]}
    task = Task(
        "validate",
        destination,
        work,
        options=options,
        inputs=existing_objects(source, metadata),
        outputs=["validation/"],
        requires=tuple if spread is None else spread.required,
    )
    return task.run() if spread is None else spread.run_last(task)


@contextmanager
def _started_evaluator(config: ValidateConfig, suites: Sequence[Suite]) -> Iterator[Evaluator | None]:
    """Start Great Expectations beside the measuring; None if neither option nor suites ask for it.

    If the user has suites, wait until it has accepted them: a mistake in them is reported before measuring.
    """
    if not config.data_docs and not suites:
        yield None
        return
    with Evaluator(suites) as evaluator:
        if suites:
            evaluator.wait_until_ready()
        yield evaluator
