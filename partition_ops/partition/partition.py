"""Run an engine and write its assignment."""

from __future__ import annotations

from typing import Any

from partition_ops.config import PartitionConfig
from partition_ops.graph.metadata import load_metadata
from partition_ops.partition.assignment import write_assignment, write_trainers
from partition_ops.partition.engines import check_able, find_engine
from partition_ops.partition.problem import Problem
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, check_apart, forget_task, run_task


def partition_nodes(
    config: PartitionConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``assignment/``: DGL's text files and our binary twin of them.

    Args:
        config: Options.
        source: Root of the input graph; its ``metadata.json`` is read, and the feature to balance by.
        destination: Root of the run, where ``prepare`` has been done if the engine needs the graph.
        progress: Shows that the engine is at work.

    Returns:
        The engine and the number of nodes of each partition.

    Raises:
        UsageError: There is no such engine.
        InvalidInputError: ``prepare`` has not been done.
        EngineError: The engine failed.

    Peak memory: that of the engine, see its own docstring.
    """
    engine = find_engine(config.engine)
    check_able(engine, config)
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)

    def work(task: Task) -> dict[str, Any]:
        problem = Problem(config, metadata, destination, source)
        with (progress or NoProgress()).step(f"Partitioning with {engine.name}", 1, "graph") as advance:
            parts = engine.run(problem)
            advance(1)
        if config.num_trainers_per_machine > 1:
            write_trainers(task, metadata, parts)
            parts //= config.num_trainers_per_machine
        written = write_assignment(task, metadata, parts, config=config, dgl_name=engine.dgl_name)
        return {**written, **problem.notes}

    if not engine.needs_graph:
        forget_task(destination, "prepare")  # of another engine's run: not part of this one
    return run_task(
        "partition",
        destination,
        options={**config.options(), "num_nodes": metadata.num_nodes},
        after=["prepare"] if engine.needs_graph else [],
        work=work,
    )
