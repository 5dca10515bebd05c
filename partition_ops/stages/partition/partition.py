"""Run an engine and write its assignment."""

from __future__ import annotations

from typing import Any

from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, check_apart, forget_task, run_task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.assignment import write_assignment, write_trainers
from partition_ops.stages.partition.engines.registry import find_engine
from partition_ops.stages.partition.graph_fit import check_options
from partition_ops.stages.partition.incremental import (
    PreviousRun,
    check_previous,
    repartition,
    write_migration,
)
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress


def partition_nodes(
    config: PartitionConfig,
    source: Store,
    destination: Store,
    *,
    previous: Store | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Write ``assignment/``: DGL's text files and our binary twin of them.

    With an earlier run, old nodes keep their partition unless moving pays, and ``assignment/migration.json``
    says what moved; see `partition_ops.stages.partition.incremental.repartition`.

    Args:
        config: Options.
        source: Root of the input graph; its ``metadata.json`` is read, and the feature to balance by.
        destination: Root of the run, where ``prepare`` has been done if the engine needs the graph.
        previous: Root of an earlier finished run over the same graph, since when it has grown.
        progress: Shows that the engine is at work.

    Returns:
        The engine and the number of nodes of each partition; after an earlier run, how many old nodes moved.

    Raises:
        UsageError: The options do not fit one another or the graph, see `check_options`; or the earlier run
            has the same root, or lies in it or around it.
        InvalidInputError: ``prepare`` has not been done, or the earlier run is not finished.
        EngineError: The engine failed.

    Peak memory: that of the engine, see its own docstring.
    """
    engine = find_engine(config.engine)
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_options(config, metadata, source)
    check_apart(source, destination, metadata)

    earlier = PreviousRun(check_previous(previous, destination)) if previous is not None else None

    def work(task: ArtifactWriter) -> dict[str, Any]:
        problem = Problem(config, metadata, destination, source)
        with (progress or NoProgress()).step(f"Partitioning with {engine.name}", 1, "graph") as advance:
            outcome = repartition(problem, engine, earlier)
            advance(1)
        parts = outcome.parts
        if config.num_trainers_per_machine > 1:
            write_trainers(task, metadata, parts)
            parts = parts // config.num_trainers_per_machine
        written = write_assignment(
            task, metadata, parts, config=config, dgl_name=engine.dgl_name, edge_cut=outcome.cut
        )
        migration = write_migration(task, problem, earlier, outcome) if earlier else {}
        return {**written, **problem.notes, **migration}

    if not engine.needs_graph:
        forget_task(destination, "prepare")  # of another engine's run: not part of this one
    return run_task(
        "partition",
        destination,
        options={**config.options(), "num_nodes": metadata.num_nodes, **_of_previous(config, earlier)},
        after=["prepare"] if engine.needs_graph else [],
        work=work,
    )


def _of_previous(config: PartitionConfig, earlier: PreviousRun | None) -> dict[str, Any]:
    """What an incremental run depends on besides."""
    if earlier is None:
        return {}
    return {**config.incremental_options(), "previous": earlier.digest}
