"""Run one stage, or some of its tasks: the whole job, the verbs of stages and the operators call this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.records import remove_ingested
from partition_ops.artifacts.stage import LAST, Stage, load
from partition_ops.artifacts.tasks import StageResult
from partition_ops.options.declare import StageConfig
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress

FIRST = "validate"


def run_stage(
    stage: Stage,
    config: StageConfig,
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    **more: Any,
) -> StageResult:
    """Run a stage, unless its tasks are done.

    Args:
        stage: Its declaration.
        config: Its options.
        source: Root of the input graph.
        destination: Root of the run, which nobody else may write to meanwhile.
        progress: Shows its steps.
        more: Further arguments of `Stage.takes`; those that it does not take are left out.

    Returns:
        The result of its last task.

    Raises:
        PartitionOpsError: As the function of the stage says.

    Peak memory: that of the stage.
    """
    if stage.name in (FIRST, LAST):
        _remove_other_input(source, destination)
    taken = {name: more[name] for name in stage.takes if name in more}
    result: StageResult = load(stage.run)(
        config, source, destination, progress=progress or NoProgress(), **taken
    )
    return result


def run_task(
    stage: Stage,
    name: str,
    config: StageConfig,
    source: Store,
    destination: Store,
    *,
    numbers: Sequence[int] = (),
    progress: Progress | None = None,
) -> list[StageResult]:
    """Run one kind of task of a stage, where several workers share the stage; done tasks are skipped.

    Args:
        stage: Its declaration.
        name: Name of the kind of task in `Stage.tasks`.
        config: Options of the stage.
        source: Root of the input graph.
        destination: Root of the run.
        numbers: Which tasks of the kind, if it has several.
        progress: Shows its steps.

    Returns:
        The results of the tasks.

    Raises:
        PartitionOpsError: As the function of the task says.

    Peak memory: that of the task.
    """
    kind = next(one for one in stage.tasks if one.name == name)
    chosen = {f"{kind.each}s": numbers} if kind.each else {}
    done = load(kind.run)(config, source, destination, progress=progress or NoProgress(), **chosen)
    return done if kind.each else [done]


def _remove_other_input(source: Store, destination: Store) -> None:
    """Remove the graph that an earlier job of another input has ingested below the output.

    It is not listed in the manifest, and would be taken for the input of the run.

    Raises:
        ConflictError: Another call ingests there.
    """
    graph = destination.child(layout.INGEST)
    if graph.canonical_uri == source.canonical_uri or not graph.exists(layout.MARKER):
        return
    with locked(graph, "ingest", within=destination):
        remove_ingested(graph)
    if not {*graph.names()} - {layout.MARKER}:
        graph.delete([layout.MARKER])
        destination.delete_empty_folders(layout.INGEST)
