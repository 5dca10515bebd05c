"""The functions of the public API, for callers who have URIs or paths and no stores."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partition_ops.errors import one_of
from partition_ops.jobs.open_graph import open_graph
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import RunResult as RunResult
from partition_ops.jobs.whole_job import run_graph
from partition_ops.options.declare import options_of
from partition_ops.options.values import build
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.system.memory_guard import bounded_memory
from partition_ops.system.progress import Progress
from partition_ops.verification import VerifyReport, check_finished, verify_output
from partition_ops.verification.check_tables import open_tables

if TYPE_CHECKING:
    from partition_ops.stages.ingest.memory.arrays import MemoryGraph


def run(
    input: str | Path | MemoryGraph,
    output: str | Path,
    *,
    num_parts: int,
    previous: str | Path | None = None,
    expectations: str | Path | None = None,
    storage: StorageSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> RunResult:
    """Validate, partition and convert a graph, as ``partition-ops run`` does.

    To resume an interrupted run, call this function again with the same arguments. Stages are skipped if they
    have finished and neither their inputs nor their options have changed.

    Args:
        input: URI or path of a graph: in DGL's chunked graph format, with ``metadata.json`` at its root,
            ParMETIS's text, a ``graph.yaml`` that names tables, or a ``graph.bin`` that DGL saved; or a
            graph in memory, as `partition_ops.ingest` makes it. The last three are ingested into ``ingest/``
            below the output.
        output: URI or path of the output; it is created.
        num_parts: Number of partitions, 1 to 65536.
        previous: Output of an earlier run, or root of a graph's runs, for an incremental run over the same
            graph after it has grown.
        expectations: Folder with expectation suites of your own.
        storage: How to reach S3; by default boto3 finds credentials and the endpoint itself.
        progress: Shows the progress of each stage; by default nothing is shown.
        **options: Other options of ``partition-ops run``, which docs/options.md lists, with underscores in
            their names: ``engine="metis"``, ``seed=7``, ``num_hops=2``, ``max_edge_cut=0.2``.

    Returns:
        Where the partitions are, and what each stage has counted.

    Raises:
        TypeError: An option is unknown.
        UsageError: A value of an option is out of range, or options contradict each other or the graph; or
            the output is finished and was made from another input, and ``replace_input`` is not set.
        InvalidInputError: The input, or the output of the earlier run, is missing or damaged, or validation
            has findings whose action is ``fail``.
        NotEnoughRoomError: The estimated memory or disk space exceeds what is available.
        ConflictError: Another process works on the output.
        QualityGateError: The partitions are worse than the quality gate allows.
        PartitionOpsError: A stage failed for another reason. Artifacts of finished stages are kept.

    Peak memory: that of the stage that needs most; ``partition-ops estimate`` predicts it.

    Example:
        >>> result = partition_ops.run("graphs/mag", "s3://data/out/mag", num_parts=4, seed=7)
        >>> result.quality["edge_cut"]["fraction"]
    """
    config = _config(num_parts=num_parts, **options)
    with bounded_memory(config.memory):
        return run_graph(
            config,
            _input(input),
            os.fspath(output),
            settings=storage,
            expectations=None if expectations is None else os.fspath(expectations),
            previous=None if previous is None else os.fspath(previous),
            progress=progress,
        )


def verify(
    input: str | Path | MemoryGraph,
    output: str | Path,
    *,
    graph_name: str | None = None,
    tables: bool = False,
    storage: StorageSettings | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check every invariant of a finished output against its input, as ``partition-ops verify`` does.

    All checks run, also after one has failed. Nothing is written.

    Args:
        input: As for `run`.
        output: URI or path of the finished output.
        graph_name: Name of the graph, if it was set for the run instead of the name in ``metadata.json``.
        tables: Also read the tables of ``input``, a ``graph.yaml``, again with separate code, and compare.
        storage: How to reach S3; by default boto3 finds credentials and the endpoint itself.
        progress: Shows the progress, by partition; by default nothing is shown.

    Returns:
        The outcome of each check. ``passed`` is true if all checks have passed; ``failed`` lists the others.

    Raises:
        InvalidInputError: The input is missing or damaged, or the output has no ``manifest.json``, which a
            run writes last.
        StorageError: Storage failed.

    Peak memory: 22 bytes per node and 17 bytes per edge of the whole graph, and one partition twice with its
    features or the largest CSV or Parquet file of the input, whichever is larger.

    Example:
        >>> report = partition_ops.verify("graphs/mag", "s3://data/out/mag")
        >>> report.passed
        True
    """
    with ExitStack() as stack:
        destination = _open(output, storage, stack)
        opened = partial(open_store, settings=storage)
        graph = open_graph(_input(input), opened, output=destination, read_only=True, progress=progress)
        source = stack.enter_context(graph)
        check_finished(destination)
        known = open_tables(str(input), opened) if tables else None
        return verify_output(source, destination, graph_name=graph_name, tables=known, progress=progress)


def _input(given: str | Path | MemoryGraph) -> str | MemoryGraph:
    return os.fspath(given) if isinstance(given, str | os.PathLike) else given


def _config(**options: Any) -> RunConfig:
    known = {option.name for option in options_of(RunConfig)}
    for name in options:
        if name not in known:
            raise TypeError(f"run() has no option {name!r}; expected {one_of(sorted(known), len(known))}")
    return build(RunConfig, options)


def _open(location: str | Path, settings: StorageSettings | None, stack: ExitStack) -> Store:
    return stack.enter_context(open_store(os.fspath(location), settings))
